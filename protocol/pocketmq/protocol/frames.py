"""Frames: the length-prefixed unit of the remoting protocol (`remoting/netty/NettyDecoder`).

``int32 L | int32 (codec << 24 | headerLen) | header | body`` where L counts all that follows it.
"""

from __future__ import annotations

import struct

from pocketmq.protocol.codecs import DECODERS, ENCODERS
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import FrameError

FRAME_SIZE_MAX = 16 * 1024 * 1024
"""RocketMQ's `com.rocketmq.remoting.frameMaxLength`: no peer accepts more."""

_LENGTHS = struct.Struct(">ii")
_HEADER_SIZE_MASK = 0xFFFFFF


def encode(command: Command) -> bytes:
    """One command as the bytes of one frame."""
    header = ENCODERS[command.codec](command)
    size = len(header)
    body = command.body
    lengths = _LENGTHS.pack(4 + size + len(body), command.codec << 24 | size)
    return lengths + header + body


class FrameParser:
    """Turns chunks of a byte stream into commands; holds at most one frame and one chunk.

    Args:
        frame_size_max: the largest announced length, in bytes, that is accepted.
    """

    __slots__ = ("_buffer", "_chunks", "_missing", "_position", "frame_size_max")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self.frame_size_max = frame_size_max
        self._buffer = b""
        self._position = 0
        self._chunks: list[bytes] = []
        self._missing = 0

    @property
    def buffered_size(self) -> int:
        """Bytes received and not yet returned as commands."""
        return len(self._buffer) - self._position + sum(map(len, self._chunks))

    def feed(self, data: bytes) -> None:
        """Takes the next chunk of the stream, whatever its size."""
        if self._position == len(self._buffer) and not self._chunks:
            self._buffer, self._position = data, 0
        else:
            # Chunks are joined only when the frame they belong to is complete, so that a large
            # frame in small chunks costs one copy.
            self._chunks.append(data)
            self._missing -= len(data)

    def next_command(self) -> Command | None:
        """The next whole command, or None until more bytes are fed.

        Raises:
            FrameError: the stream is garbled; nothing after this point can be read.
        """
        if self._chunks:
            if self._missing > 0:
                return None
            self._buffer = b"".join((self._buffer[self._position :], *self._chunks))
            self._position = 0
            self._chunks.clear()
            self._missing = 0
        buffer, start = self._buffer, self._position
        available = len(buffer) - start
        if available < 8:
            return None
        size, mark = _LENGTHS.unpack_from(buffer, start)
        self._check(size, mark)
        if available < 4 + size:
            self._missing = 4 + size - available
            return None
        header_start = start + 8
        body_start = header_start + (mark & _HEADER_SIZE_MASK)
        end = start + 4 + size
        self._position = end
        return DECODERS[mark >> 24 & 0xFF](buffer[header_start:body_start], buffer[body_start:end])

    def _check(self, size: int, mark: int) -> None:
        if not 4 <= size <= self.frame_size_max:
            raise FrameError(
                f"a frame announces {size} bytes, allowed are 4 to {self.frame_size_max}; "
                f"is the peer speaking RocketMQ's remoting protocol?"
            )
        if mark & _HEADER_SIZE_MASK > size - 4:
            raise FrameError(
                f"a frame of {size} bytes announces a header of {mark & _HEADER_SIZE_MASK}"
            )
        if mark >> 24 & 0xFF not in DECODERS:
            raise FrameError(f"unknown header codec {mark >> 24 & 0xFF}")
