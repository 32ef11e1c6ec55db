"""The index of message keys, and searches in it."""
