"""Dead letters in the API: what became of them, why they failed, and their redrives."""
