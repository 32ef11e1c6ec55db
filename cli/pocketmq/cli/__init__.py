"""The `pocketmq` command."""
