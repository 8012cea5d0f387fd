"""What the group-coordinator knows about Kafka's rules, as pure machines: events and time in, decisions out, no IO."""
