"""Who may do what: Kafka's access control lists, and the decisions that follow from them."""
