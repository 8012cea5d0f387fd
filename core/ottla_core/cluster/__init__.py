"""Cluster state: an immutable image of it, where it lies in etcd, and how a process follows it."""
