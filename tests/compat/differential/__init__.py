"""Stories that are lived through on Apache Kafka and on ottla, and compared fact by fact."""
