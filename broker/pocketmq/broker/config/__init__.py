"""The settings of a broker, and those of them that change while it runs."""
