"""`make bench-spark`: `format("ottla")` beside Spark's own Kafka source and sink, on the same topics in one run."""
