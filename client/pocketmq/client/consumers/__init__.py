"""The consumers: push, pull and lite pull."""
