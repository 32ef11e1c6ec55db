"""Producers, with and without transactions."""
