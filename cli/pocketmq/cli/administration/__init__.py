"""Commands that look at and change a cluster."""
