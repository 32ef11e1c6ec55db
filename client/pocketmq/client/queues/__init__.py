"""One queue of a member: pulling, buffering, order, locks."""
