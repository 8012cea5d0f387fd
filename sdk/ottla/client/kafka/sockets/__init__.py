"""The adapter between connections and sockets. Only here does the Kafka transport have threads, locks and sockets."""
