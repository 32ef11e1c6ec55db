"""Message traces of producers and consumers."""
