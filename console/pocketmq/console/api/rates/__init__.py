"""Rates: of topics in a list, and of clusters, topics and groups over time."""
