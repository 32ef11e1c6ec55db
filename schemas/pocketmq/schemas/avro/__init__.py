"""Avro, by fastavro."""
