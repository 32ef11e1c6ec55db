"""Metrics as text, and the port that serves them; loaded only where metrics are exported."""
