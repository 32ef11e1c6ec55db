"""What tests of PocketMQ, and of applications on it, are built with."""
