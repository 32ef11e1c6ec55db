"""RocketMQ 5's gRPC service, translated to requests that brokers of all versions know."""
