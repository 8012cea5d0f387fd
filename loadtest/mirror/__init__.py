"""The mirror beside what else copies from cluster to cluster: `make bench-mirror`."""
