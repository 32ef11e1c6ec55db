"""Ready-made frames for answers that say that all is well, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import FLAG_RESPONSE, Codec, Command

_LENGTHS = struct.Struct(">ii")
_OPAQUE = 0x7ABCDEF1
"""Stands for the opaque id in the patterns; no other bytes of them are the same."""


def success_frame(codec: int, opaque: int) -> bytes:
    """Returns the frame that `frames.encode` makes of a bare success.

    Args:
        codec: of the request.
        opaque: of the request.
    """
    return _FRAMES[codec](opaque)


def _pattern(codec: Codec, opaque: int) -> bytes:
    return frames.encode(Command(0, opaque, FLAG_RESPONSE, codec=codec))


def _binary() -> Callable[[int], bytes]:
    before, after = _pattern(Codec.BINARY, _OPAQUE).split(_OPAQUE.to_bytes(4, "big"))
    return lambda opaque: b"%b%b%b" % (before, opaque.to_bytes(4, "big", signed=True), after)


def _msgpack() -> Callable[[int], bytes]:
    pattern, pack = _pattern(Codec.MSGPACK, _OPAQUE), msgspec.msgpack.Encoder().encode
    before, after = pattern[2 * frames.PREFIX_SIZE :].split(pack(_OPAQUE))
    mark, rest = Codec.MSGPACK << 24, len(before) + len(after)

    def frame(opaque: int) -> bytes:
        number = pack(opaque)
        size = rest + len(number)
        return _LENGTHS.pack(4 + size, mark | size) + before + number + after

    return frame


def _json() -> Callable[[int], bytes]:
    """The length of the opaque id changes the two lengths before it."""
    pattern = _pattern(Codec.JSON, _OPAQUE)
    before, after = pattern[2 * frames.PREFIX_SIZE :].split(b"%d" % _OPAQUE)
    rest = len(before) + len(after)

    def frame(opaque: int) -> bytes:
        digits = b"%d" % opaque
        size = rest + len(digits)
        return _LENGTHS.pack(4 + size, size) + before + digits + after

    return frame


_FRAMES = {
    int(Codec.JSON): _json(),
    int(Codec.BINARY): _binary(),
    int(Codec.MSGPACK): _msgpack(),
}
