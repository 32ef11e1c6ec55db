"""Operations that change topics, groups and offsets, and send many messages."""
