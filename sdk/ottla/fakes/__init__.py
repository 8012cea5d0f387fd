"""Clients and brokers in memory, behind the interfaces of the real ones: for unit tests."""
