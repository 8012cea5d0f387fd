"""Spark as its users start it, with Spark's own Kafka source and sink on the class path."""
