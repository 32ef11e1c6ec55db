"""Copying messages between topics, files and clusters in order."""
