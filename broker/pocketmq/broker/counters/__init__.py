"""Counters that sends and pulls add to, and samples of them."""
