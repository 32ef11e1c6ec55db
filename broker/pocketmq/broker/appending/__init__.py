"""What sends need beside the store: batches, targets, the limit of what waits for the disk."""
