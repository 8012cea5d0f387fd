"""Measured figures (`make bench`) and load with Locust (`make load`, `make soak`). Nothing in here is a test."""
