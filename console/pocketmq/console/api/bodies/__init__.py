"""The JSON bodies of the API."""
