"""Reads the state of a cluster out of its brokers, and asks the members of groups."""
