"""This package reads the files with a service's secrets."""
