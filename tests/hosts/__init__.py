"""Hosts for proofs: a Docker Engine, and a Debian release in a directory."""
