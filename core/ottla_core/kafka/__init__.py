"""Kafka's messages have a class each, and a codec that is generated from Kafka's own definitions at first use."""
