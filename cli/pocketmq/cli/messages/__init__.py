"""Commands about single messages and measuring."""
