"""Stories that clients go through on Apache Kafka and on ottla, and that are compared fact by fact."""
