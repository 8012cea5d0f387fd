"""Fault runs of consumer groups: rows F10, F16 and F18, with clients, checker and mutants of their own."""
