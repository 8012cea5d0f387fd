"""Measuring a cluster with the SDK: what `ottla bench` does, and the histogram that `loadtest/` shares with it."""
