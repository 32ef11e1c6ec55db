"""The metadata of a data directory in SQLite, and the table of its logs."""
