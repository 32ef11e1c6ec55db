"""Statistics: counters sampled by a timer, from which rates in windows are computed."""
