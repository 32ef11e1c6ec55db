"""Sending a message: encoding, retries around faults, hooks."""
