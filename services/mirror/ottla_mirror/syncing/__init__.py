"""Besides records, a flow syncs topics and configs, and what its mirrors tell one another."""
