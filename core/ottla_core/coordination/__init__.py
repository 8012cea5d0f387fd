"""A coordinator's state in an internal topic whose partitions brokers lead. Rules: docs/design/coordination.md."""
