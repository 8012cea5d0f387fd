"""The coordinator's own classes in a seeded simulation of everything that can go wrong: docs/design/coordination.md."""
