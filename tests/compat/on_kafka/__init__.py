"""The SDK's own system tests with Apache Kafka in the place of ottla: `make compat CLIENTS=ottla-on-kafka`."""
