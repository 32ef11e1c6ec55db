"""Rows of Spark as stored records, and back."""
