"""Load with Locust: users, curves, and what a run has to reach (`make load`, `make soak`)."""
