"""The way to the other services of the cluster, and how this broker identifies itself to them."""
