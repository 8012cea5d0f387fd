"""`make bench-kafka`: ottla beside Apache Kafka on one machine, driven by the same unchanged clients."""
