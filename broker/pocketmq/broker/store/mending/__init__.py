"""Checking, repairing and dumping a data directory."""
