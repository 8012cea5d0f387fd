"""Calls to the services that decide: the controller, and the coordinators of groups and transactions."""
