"""These rules, without IO, say what a mirror copies and where to."""
