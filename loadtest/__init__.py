"""Measured figures, side by side in one run: `make bench`. Nothing here is a test; nothing here asserts a time."""
