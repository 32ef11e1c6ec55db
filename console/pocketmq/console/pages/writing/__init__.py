"""Pages with forms that send messages and change topics, groups and offsets."""
