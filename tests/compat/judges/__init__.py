"""Kafka's own client and Spark's own source as judges of ours: the same steps on both, and what comes of each step."""
