"""ottla: a Kafka-compatible event-streaming stack in Python."""
