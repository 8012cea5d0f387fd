"""Measurement of a cluster with the SDK, for `ottla bench`; `loadtest/` shares the histogram."""
