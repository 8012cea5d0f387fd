"""Reading records from a cluster: where reading starts and stops, fetching ahead, and how records are returned.

The rules are in `ottla.machines.subscription` and `position`; `group` is for consumers that share their partitions.
"""
