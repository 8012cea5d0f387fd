"""Sending records to a cluster: from `send` to batches by partition, requests by broker, and the futures.

The rules are in `ottla.machines.accumulator`, `queues` and `sequences`; this package waits, calls and is called back.
"""
