"""What the broker knows about Kafka's rules, as pure machines: events and time in, effects out, no IO."""
