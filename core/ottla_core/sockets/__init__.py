"""What is set on sockets, by clients and by brokers."""
