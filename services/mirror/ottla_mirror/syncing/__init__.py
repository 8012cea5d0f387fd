"""What a flow keeps in step beside the records: topics and configs, and what its mirrors tell one another."""
