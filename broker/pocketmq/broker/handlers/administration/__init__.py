"""Handlers of requests that operators send."""
