"""Consuming without queues of one's own: pops, acknowledgements, invisible times."""
