"""The log of one queue: segments, index, reading, recovery."""
