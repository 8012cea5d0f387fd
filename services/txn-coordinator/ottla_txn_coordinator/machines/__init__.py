"""The txn-coordinator's knowledge of Kafka's rules, as pure machines: events and time in, decisions out, no IO."""
