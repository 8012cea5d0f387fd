"""The figures of docs/benchmarks.md: a program each, and what they share."""
