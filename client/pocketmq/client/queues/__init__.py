"""What a member does with one queue: pulling, buffering, order, locks."""
