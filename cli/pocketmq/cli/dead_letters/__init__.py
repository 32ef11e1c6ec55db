"""Commands about dead letters: `pocketmq dlq`."""
