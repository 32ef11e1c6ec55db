"""Brokers and broker sets: roles, replication, settings, name servers."""
