"""How a coordinator keeps its state in an internal topic whose partitions brokers lead. Rules: docs/coordination.md."""
