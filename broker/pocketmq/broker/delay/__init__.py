"""Delayed messages by level: `Schedule` takes them and brings them to their topic when due.

A delayed message is an ordinary record of `SCHEDULE_TOPIC_XXXX`, queue level - 1, that carries the
time at which it is due; a `LevelDelivery` per level re-appends it to its real topic then.
"""
