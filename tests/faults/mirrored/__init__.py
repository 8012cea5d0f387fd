"""F20: mirrors between two clusters while they are killed, and both clusters' services, and the link is cut."""
