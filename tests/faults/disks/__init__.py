"""F25 to F28: disks lost, old and full, and a metadata store from a backup. What was acknowledged stays."""
