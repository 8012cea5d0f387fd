"""A consumer's membership in a group: the coordinator, heartbeats, rebalances, commits, and reading as they allow.

The rules are in `ottla.machines.membership` and `ottla.machines.leading`; this package waits, calls and is called back.
"""
