"""Translations of the clients' calls into Kafka's messages, with one module for each API."""
