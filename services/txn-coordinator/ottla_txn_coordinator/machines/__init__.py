"""What the txn-coordinator knows about Kafka's rules, as pure machines: events and time in, decisions out, no IO."""
