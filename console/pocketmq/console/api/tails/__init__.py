"""Live tails: the new messages of a topic as they come, without a consumer group."""
