"""What pulls need beside the store: held pulls, filters, progress of groups."""
