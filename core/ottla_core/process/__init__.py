"""The base of a service's process: its settings, its start and stop, its admin port, its memory and its files."""
