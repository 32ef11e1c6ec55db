"""The durable store: one log and one index per (topic, queue), and their metadata in SQLite.

`store.MessageStore` is the whole of it; the other modules are one idea each. The format is
described in docs/store-format.md.
"""
