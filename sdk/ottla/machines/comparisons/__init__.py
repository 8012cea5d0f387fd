"""What lies in two logs, held against each other."""
