"""Commands about users and their policies."""
