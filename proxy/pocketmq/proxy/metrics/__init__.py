"""What Prometheus gets of the rpcs of RocketMQ 5's SDKs."""
