"""The txn-coordinator: producers of transactional ids and their transactions, sharded over an internal topic."""
