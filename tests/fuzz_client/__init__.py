"""A hostile server against the SDK's Kafka transport: see `__main__`."""
