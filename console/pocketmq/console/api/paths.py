"""Where the operations are."""

PREFIX = "/api/v1"
