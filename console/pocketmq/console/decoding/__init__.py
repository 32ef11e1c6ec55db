"""Bodies of messages as values: JSON, MessagePack, text, bytes, and what other packages decode."""
