"""Messages that wait before consumers see them: for a time, for their transaction, or popped."""
