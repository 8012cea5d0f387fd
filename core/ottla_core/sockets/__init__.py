"""Socket options that clients and brokers share."""
