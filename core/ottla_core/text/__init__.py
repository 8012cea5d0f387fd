"""Text that others have written, as people may see it."""
