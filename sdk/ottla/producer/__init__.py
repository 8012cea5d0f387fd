"""Records into a cluster: from `send` to the batches of each partition, the requests to each broker, and the futures.

The rules are in `ottla.machines.accumulator`, `queues` and `sequences`; here is what waits, calls and is called back.
"""
