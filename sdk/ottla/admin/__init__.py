"""Topics, partitions, configs, groups and the cluster, as Admin manages and describes them."""
