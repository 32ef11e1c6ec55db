"""Handlers of requests about popped messages, and about who consumes how."""
