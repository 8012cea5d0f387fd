"""What a service's process runs on: its settings, its start and stop, its admin port, its memory and its files."""
