"""Pages of dead letters and their redrives."""
