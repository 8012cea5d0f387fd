"""The controller's rules are pure: each request's effect on the cluster's state is decided from one image."""
