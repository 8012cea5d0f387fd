"""The partition logs on disk, in Kafka's own layout, so that Kafka's tools read them."""
