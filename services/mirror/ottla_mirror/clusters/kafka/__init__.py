"""Any other Kafka cluster, through confluent-kafka. It is read and written record by record, as its clients do."""
