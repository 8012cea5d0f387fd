"""Kafka's configs: the table of them, their types, and which value is in force."""
