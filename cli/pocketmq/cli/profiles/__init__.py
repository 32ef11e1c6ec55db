"""Named clusters, and which cluster a command means."""
