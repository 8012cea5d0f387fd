"""Kafka Streams, with the WordCount of its own examples."""
