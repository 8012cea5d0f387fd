"""Topics, partitions, configs, groups, transactions and the cluster, as Admin manages and describes them."""
