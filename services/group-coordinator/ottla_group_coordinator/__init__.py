"""The group-coordinator: consumer groups and their committed offsets, sharded over an internal topic."""
