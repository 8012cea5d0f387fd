"""The compatibility matrix: every client with every capability; `make compat` runs it whole."""
