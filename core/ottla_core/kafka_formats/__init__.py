"""What Kafka spells in its own way, besides record batches: primitive types, UUIDs, and what group members exchange."""
