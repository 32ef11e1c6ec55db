"""Batch reads."""
