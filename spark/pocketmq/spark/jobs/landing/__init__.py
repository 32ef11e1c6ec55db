"""Landing a topic in files: what exports and archives share."""
