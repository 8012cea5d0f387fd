"""What is asked of a partition besides produce and fetch, by the gRPC service and by the Kafka listener."""
