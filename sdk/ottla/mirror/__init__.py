"""What programs and operators want of a mirror: how it is, where offsets are in the copies, failover."""
