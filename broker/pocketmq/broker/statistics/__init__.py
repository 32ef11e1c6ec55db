"""What the broker did of late: plain counters, sampled by a timer, seen through windows."""
