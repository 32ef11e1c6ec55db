"""Schema registries, by Confluent's HTTP API."""
