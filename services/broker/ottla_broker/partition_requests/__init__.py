"""Requests to a partition other than produce and fetch."""
