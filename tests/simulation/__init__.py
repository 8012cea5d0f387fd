"""A seeded simulation of the coordinator's own classes among everything that can go wrong. See docs/coordination.md."""
