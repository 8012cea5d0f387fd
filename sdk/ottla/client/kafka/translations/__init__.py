"""The clients' calls in Kafka's messages, one module for each API."""
