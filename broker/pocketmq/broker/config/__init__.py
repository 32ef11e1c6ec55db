"""The settings of a broker, those that change while it runs, and who owns a data directory."""
