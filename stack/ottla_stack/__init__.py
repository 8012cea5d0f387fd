"""The top layer: the supervisor of `ottla up`, the in-process cluster, the tools on log files."""
