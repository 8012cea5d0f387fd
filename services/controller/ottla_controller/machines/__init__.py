"""The controller's rules, pure: what each request does to the cluster's state, decided from one image."""
