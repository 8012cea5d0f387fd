"""F30: a cluster that has to share its cores with busy processes. It may be slow, and nothing else."""
