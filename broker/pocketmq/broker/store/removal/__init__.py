"""Deleting the logs of topics."""
