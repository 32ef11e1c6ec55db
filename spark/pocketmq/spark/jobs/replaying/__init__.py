"""Parts of the replay job."""
