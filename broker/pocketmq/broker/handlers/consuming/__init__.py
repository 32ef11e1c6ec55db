"""Handlers of requests that consumers send: pulls, offsets, locks, heartbeats, searches."""
