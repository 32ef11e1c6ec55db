"""Consumer groups: their settings, members, subscriptions, offsets and queue locks."""
