"""The seam to the disk: files, locks, directory flushes, free space, errors."""
