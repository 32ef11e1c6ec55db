"""What users may do: policies, how they decide, and how they are written."""
