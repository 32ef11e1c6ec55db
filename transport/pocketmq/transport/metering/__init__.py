"""What servers measure and tell for metrics; loaded only where metrics are exported."""
