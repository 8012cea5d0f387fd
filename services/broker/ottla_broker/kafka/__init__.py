"""The Kafka protocol: a second thin adapter in front of the same logic that gRPC serves."""
