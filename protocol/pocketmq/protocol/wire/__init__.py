"""Frames, commands and headers: the bytes of RocketMQ's remoting protocol."""
