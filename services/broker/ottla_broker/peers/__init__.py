"""The way to the other services of the cluster."""
