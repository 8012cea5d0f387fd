"""The Kafka protocol, by which clients reach a broker: a thin adapter in front of its logic."""
