"""Copying the partitions that a mirror is given: at least once, exactly once, or at the source's offsets."""
