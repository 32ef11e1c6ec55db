"""Which queues of a topic a member of a group consumes."""
