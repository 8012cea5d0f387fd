"""Programs of others that judge groups of the consumer protocol (KIP-848)."""
