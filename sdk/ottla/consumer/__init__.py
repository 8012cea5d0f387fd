"""Records out of a cluster: where reading starts and stops, the fetches ahead of it, and how records are handed out.

The rules are in `ottla.machines.subscription` and `position`; `group` is for consumers that share their partitions.
"""
