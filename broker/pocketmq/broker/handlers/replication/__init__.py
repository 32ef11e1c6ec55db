"""Handlers about the replication of a broker, and about broker sets."""
