"""The storage broker: partition logs, produce and fetch."""
