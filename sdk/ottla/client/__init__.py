"""What every client needs of a cluster: connections, metadata, offsets by time, settings, and explained errors."""
