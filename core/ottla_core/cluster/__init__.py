"""Cluster state: an immutable image of it, where it is kept in etcd, and how a process follows it."""
