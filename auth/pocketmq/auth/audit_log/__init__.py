"""The audit, and where its lines go."""
