"""The client side of mirroring: the state of flows, translation of offsets, failover and failback, verification."""
