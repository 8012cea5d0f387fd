"""The log cleaner: what a worker process does to the segments of a compacted log (rules 30, 62 and 64)."""
