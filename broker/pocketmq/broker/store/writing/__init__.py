"""Writing appended records to the disk, and flushing them."""
