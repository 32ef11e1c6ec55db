"""Giving messages to an application's listener or iteration, and what follows from its answer."""
