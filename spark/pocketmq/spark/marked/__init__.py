"""Commits of marked writes."""
