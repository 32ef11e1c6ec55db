"""Protobuf without generated code, by the descriptors that protoc makes of a schema's text."""
