"""The adapter between connections and sockets. Only here the Kafka transport has threads, locks and sockets."""
