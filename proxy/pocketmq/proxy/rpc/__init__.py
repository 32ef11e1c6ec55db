"""The messages of the service; `messaging_pb2` is made of messaging.proto."""
