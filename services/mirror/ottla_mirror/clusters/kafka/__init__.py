"""Any other Kafka cluster, by confluent-kafka: record by record, as its clients are."""
