"""A consumer's membership in a group: the coordinator, heartbeats, rebalances, commits, and reading by their leave.

The rules are in `ottla.machines.membership` and `ottla.machines.leading`; here is what waits, calls and is called back.
"""
