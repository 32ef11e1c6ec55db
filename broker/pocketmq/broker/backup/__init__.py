"""Backups of a running broker, over its ordinary port: full the first time, then what is new."""
