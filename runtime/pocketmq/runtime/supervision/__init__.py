"""What looks after processes of servers, and what they tell it: service managers and probes."""
