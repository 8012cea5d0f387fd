"""What a log keeps of its transactions beside its batches, and how they end in it."""
