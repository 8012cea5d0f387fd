"""A release: built from the last commit, installed into clean environments, and used as the README says."""
