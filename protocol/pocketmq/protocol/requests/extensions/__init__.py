"""Requests that only PocketMQ has: between its servers, of backups, and about dead letters."""
