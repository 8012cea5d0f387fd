"""Files with secrets are read here, and the files that a process makes are kept for its own user."""
