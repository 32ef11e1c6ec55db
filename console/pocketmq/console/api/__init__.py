"""The JSON API of a cluster, under /api/v1: what people and programs see of it, and do to it."""
