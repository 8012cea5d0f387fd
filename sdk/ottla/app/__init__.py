"""`ottla.App`: functions that handle the records of a consumer group, with retries and dead letters.

The rules are in `ottla.machines.lanes` and `ottla.machines.progress`; this package reads, runs handlers and commits.
"""
