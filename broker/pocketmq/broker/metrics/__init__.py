"""What a broker exports to Prometheus: RocketMQ's metrics as they are scraped, and its own."""
