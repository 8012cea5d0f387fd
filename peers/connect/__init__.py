"""Kafka Connect in distributed mode, with Debezium's connectors as a plugin."""
