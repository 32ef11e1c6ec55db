"""The gRPC endpoint of a broker, for RocketMQ 5's SDKs."""
