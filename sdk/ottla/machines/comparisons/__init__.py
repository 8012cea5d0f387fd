"""Comparisons of the contents of two or more logs."""
