"""What a cluster costs as its partitions grow in number: `make bench-scale`."""
