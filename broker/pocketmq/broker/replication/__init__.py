"""Broker sets: one leader, and followers that hold byte-exact copies of its logs."""
