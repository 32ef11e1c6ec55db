"""Giving messages to an application's listener or iteration, and following its answer."""
