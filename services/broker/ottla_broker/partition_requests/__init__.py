"""Requests to a partition other than produce and fetch. The gRPC service and the Kafka listener use them."""
