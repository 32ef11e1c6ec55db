"""The gRPC service as a process of its own, in front of a cluster (`pocketmq proxy`)."""
