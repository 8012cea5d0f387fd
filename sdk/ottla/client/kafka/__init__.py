"""Kafka's protocol as a transport of the clients: a machine for one connection, and an adapter with sockets."""
