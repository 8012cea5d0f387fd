"""Fault runs: real processes, real faults, and a checker that is no part of the product. `make faults` runs them.

Clients write unique values and note what they did (`history`); a nemesis kills, stops and cuts (`nemesis`, `network`);
afterwards the notes are held against each other (`checker`) and the replicas' logs against one another (`audit`).
"""
