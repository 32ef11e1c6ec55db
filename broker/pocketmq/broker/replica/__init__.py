"""What a member of a broker set serves while it follows: reads of its own copy."""
