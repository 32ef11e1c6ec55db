"""The three header codecs, chosen frame by frame."""

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
"""(header bytes, body) → command; each raises `FrameError` when the header is garbled."""

ENCODERS: dict[int, Callable[[Command], bytes]] = {
    Codec.JSON: json.encode,
    Codec.BINARY: binary.encode,
    Codec.MSGPACK: msgpack.encode,
}
"""command → header bytes."""
