"""Offsets of a group, in brokers or in local files."""
