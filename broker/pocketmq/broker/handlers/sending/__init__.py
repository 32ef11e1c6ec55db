"""Handlers of requests that store messages."""
