"""This package is a certificate authority for development: who is who in a cluster, in files of one directory."""
