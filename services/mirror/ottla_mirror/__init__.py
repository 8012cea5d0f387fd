"""The mirror: topics, configs and offsets of one cluster in another, kept in step."""
