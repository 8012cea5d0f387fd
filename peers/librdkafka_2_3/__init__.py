"""librdkafka 2.3.0, of 2023, by the confluent-kafka of that day: many an application still carries it."""
