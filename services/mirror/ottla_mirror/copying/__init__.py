"""A mirror copies its assigned partitions at least once, exactly once, or at the source's offsets."""
