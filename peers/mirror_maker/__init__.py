"""Kafka's MirrorMaker 2, in its dedicated mode."""
