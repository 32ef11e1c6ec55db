"""The release that this code is, as `pocketmq --version` and the servers tell it."""

VERSION = "0.2.0"
