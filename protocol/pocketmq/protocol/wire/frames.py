"""Frames: the length-prefixed unit of the remoting protocol (`remoting/netty/NettyDecoder`).

``int32 L | int32 (codec << 24 | headerLen) | header | body`` where L counts all that follows it.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from pocketmq.protocol.errors import FrameError, MessageSizeError
from pocketmq.protocol.wire.codecs import DECODERS, ENCODERS
from pocketmq.protocol.wire.command import Command

FRAME_SIZE_MAX = 16 * 1024 * 1024
"""RocketMQ's `com.rocketmq.remoting.frameMaxLength`, with the length prefix; peers refuse more."""

SMALL_CHUNK_SIZE = 1024
"""Chunks below this size are joined at once: a list of tiny chunks takes 30 times their size."""

LARGE_FRAME_SIZE = 256 * 1024
"""The body of a frame of at least this size is copied only once."""

PREFIX_SIZE = 4

_LENGTHS = struct.Struct(">ii")
assert _LENGTHS.size == PREFIX_SIZE + 4
_HEADER_SIZE_MASK = 0xFFFFFF


def encode(command: Command) -> bytes:
    """Encodes a command as the bytes of one frame.

    Raises:
        UsageError: it does not fit in a frame or in its header codec; every peer would hang up.
    """
    header = ENCODERS[command.codec](command)
    header_size = len(header)
    body = command.body
    size = 4 + header_size + len(body)
    if size > FRAME_SIZE_MAX - PREFIX_SIZE:
        raise MessageSizeError("frame", PREFIX_SIZE + size, FRAME_SIZE_MAX)
    return _LENGTHS.pack(size, command.codec << 24 | header_size) + header + body


class FrameParser:
    """Cuts a byte stream into commands; holds at most one frame and one chunk.

    Args:
        frame_size_max: bytes of the largest frame, length prefix included, that is accepted.

    Attributes:
        begun_count: frames that did not come in one chunk.
        is_drained: whether it is known that nothing is left for `next_command`.
    """

    __slots__ = (
        "_buffer",
        "_chunks",
        "_missing",
        "_position",
        "begun_count",
        "frame_size_max",
        "is_drained",
    )

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self.frame_size_max = frame_size_max
        self._buffer = b""
        self._position = 0
        self._chunks: list[bytes | bytearray] = []
        self._missing = 0
        self.begun_count = 0
        self.is_drained = True

    @property
    def missing_size(self) -> int:
        """Bytes that the incomplete frame still lacks; 0 while its size is not known."""
        return max(self._missing, 0)

    @property
    def buffered_size(self) -> int:
        """Bytes received and not yet returned as commands."""
        return len(self._buffer) - self._position + sum(map(len, self._chunks))

    def feed(self, data: bytes) -> None:
        """Appends the next chunk of the stream, of any size."""
        self.is_drained = False
        if self._position == len(self._buffer) and not self._chunks:
            self._buffer, self._position = data, 0
        else:
            # Chunks are joined only when the frame they belong to is complete, so that a large
            # frame costs one copy.
            chunks, size = self._chunks, len(data)
            self._missing -= size
            if size >= SMALL_CHUNK_SIZE:
                chunks.append(data)
            elif chunks and chunks[-1].__class__ is bytearray:
                chunks[-1] += data
            else:
                chunks.append(bytearray(data))

    def next_command(self) -> Command | None:
        """Returns the next complete command, or None until more bytes are fed.

        Raises:
            FrameError: the stream is garbled; nothing after this point can be read.
        """
        if self._chunks:
            if self._missing > 0:
                return None
            command = self._large_command()
            if command is not None:
                return command
            self._buffer = b"".join((self._buffer[self._position :], *self._chunks))
            self._position = 0
            self._chunks.clear()
            self._missing = 0
        buffer, start = self._buffer, self._position
        available = len(buffer) - start
        if available < 8:
            return None
        size, mark = _LENGTHS.unpack_from(buffer, start)
        header_size = mark & _HEADER_SIZE_MASK
        if not 4 + header_size <= size <= self.frame_size_max - PREFIX_SIZE:
            self._refuse(size, header_size)
        decode = DECODERS.get(mark >> 24 & 0xFF)
        if decode is None:
            raise FrameError(f"unknown header codec {mark >> 24 & 0xFF}")
        if available < 4 + size:
            if not self._missing:  # else it was looked at before
                self._missing = 4 + size - available
                self.begun_count += 1
            return None
        body_start = start + 8 + header_size
        end = start + 4 + size
        if available == 4 + size:  # an idle connection keeps no last chunk
            self._buffer, self._position, self.is_drained = b"", 0, True
        else:
            self._position = end
        return decode(buffer[start + 8 : body_start], buffer[body_start:end])

    def _large_command(self) -> Command | None:
        """Returns the command of a complete large frame, whose body it joins by a single copy.

        None if the frame is not of that kind: it is small or garbled, it does not end in the last
        chunk, or its header did not come whole in the first one.
        """
        first, start, chunks = self._buffer, self._position, self._chunks
        if len(first) - start < 8:
            return None
        size, mark = _LENGTHS.unpack_from(first, start)
        header_start = start + 8
        body_start = header_start + (mark & _HEADER_SIZE_MASK)
        decode = DECODERS.get(mark >> 24 & 0xFF)
        last_size = len(chunks[-1])
        excess = len(first) - start + sum(map(len, chunks)) - 4 - size
        if (
            not LARGE_FRAME_SIZE <= size <= self.frame_size_max - PREFIX_SIZE
            or not 0 <= excess < last_size
            or body_start > len(first)
            or decode is None
        ):
            return None
        last = memoryview(chunks[-1])
        end = last_size - excess
        body = b"".join((memoryview(first)[body_start:], *chunks[:-1], last[:end]))
        self._buffer, self._position = bytes(last[end:]), 0
        self._chunks = []
        self._missing = 0
        return decode(first[header_start:body_start], body)

    def _refuse(self, size: int, header_size: int) -> NoReturn:
        if not 4 <= size <= self.frame_size_max - PREFIX_SIZE:
            raise FrameError(
                f"a frame announces {size} bytes, allowed are 4 to "
                f"{self.frame_size_max - PREFIX_SIZE}; "
                f"is the peer speaking RocketMQ's remoting protocol?"
            )
        raise FrameError(f"a frame of {size} bytes announces a header of {header_size}")
