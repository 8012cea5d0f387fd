"""Sockets of Kafka clients: connections, the memory and the time that they may take, frames in and out."""
