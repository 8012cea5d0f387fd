"""Groups across sites: their offsets are translated, checkpointed, committed in the target, and put in Redis."""
