"""kafkajs, the client most used in Node.js that is not librdkafka."""
