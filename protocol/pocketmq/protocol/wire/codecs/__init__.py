"""The three header codecs; each frame says which one it uses."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.protocol.wire.codecs import binary, json, msgpack
from pocketmq.protocol.wire.command import Codec, Command

__all__ = ["DECODERS", "ENCODERS"]

DECODERS: dict[int, Callable[[bytes, bytes], Command]] = {
    Codec.JSON: json.decode,
    Codec.BINARY: binary.decode,
    Codec.MSGPACK: msgpack.decode,
}
"""Codec → function from (header, body) to a command; raises `FrameError` for a garbled header."""

ENCODERS: dict[int, Callable[[Command], bytes]] = {
    Codec.JSON: json.encode,
    Codec.BINARY: binary.encode,
    Codec.MSGPACK: msgpack.encode,
}
"""Codec → function from a command to the bytes of its header."""
