"""Kafka's messages: a class for each, and a codec that is generated from Kafka's own definitions at first use."""
