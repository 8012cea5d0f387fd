"""Files that a service is given: those with its secrets."""
