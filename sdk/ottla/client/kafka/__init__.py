"""Kafka's protocol as a transport of the clients: a machine for one connection, and one adapter with sockets."""
