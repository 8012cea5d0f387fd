"""Kafka's own spellings, besides record batches: primitive types, UUIDs, and what group members exchange."""
