"""Frames: the length-prefixed unit of the remoting protocol (`remoting/netty/NettyDecoder`).

``int32 L | int32 (codec << 24 | headerLen) | header | body`` where L counts all that follows it.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from typing import NoReturn, cast

from pocketmq.protocol.errors import FrameError, MessageSizeError
from pocketmq.protocol.wire.codecs import DECODERS, ENCODERS
from pocketmq.protocol.wire.command import Command

FRAME_SIZE_MAX = 16 * 1024 * 1024
"""RocketMQ's `com.rocketmq.remoting.frameMaxLength`, with the length prefix; peers refuse more."""

SMALL_CHUNK_SIZE = 1024
"""Chunks below this size are joined at once: a list of tiny chunks takes 30 times their size."""

LARGE_FRAME_SIZE = 16 * 1024
"""The body of a frame of at least this size is copied once at the most."""

PREFIX_SIZE = 4

_LENGTHS = struct.Struct(">ii")
assert _LENGTHS.size == PREFIX_SIZE + 4
_HEADER_SIZE_MASK = 0xFFFFFF


def encode(command: Command) -> bytes:
    """Encodes a command as the bytes of one frame.

    Raises:
        UsageError: it does not fit in a frame or in its header codec; every peer would hang up.
    """
    return encode_head(command) + command.body


def encode_head(command: Command) -> bytes:
    """Encodes all of a frame but the body, which belongs behind it.

    Raises:
        UsageError: as `encode`.
    """
    header = ENCODERS[command.codec](command)
    header_size = len(header)
    size = 4 + header_size + len(command.body)
    if size > FRAME_SIZE_MAX - PREFIX_SIZE:
        raise MessageSizeError("frame", PREFIX_SIZE + size, FRAME_SIZE_MAX)
    return _LENGTHS.pack(size, command.codec << 24 | header_size) + header


class FrameParser:
    """Cuts a byte stream into commands; holds at most one frame and one chunk.

    The rest of a large frame may be received straight into its place: `make_place` makes it,
    whoever reads from the peer writes into `place_left` and says so by `placed`.

    Args:
        frame_size_max: bytes of the largest frame, length prefix included, that is accepted.
        view_codes: codes of requests whose handlers take any object with bytes as `Command.body`;
            the body of a large one of these is not copied when all of it is there.

    Attributes:
        begun_count: frames that did not come in one chunk.
        is_drained: whether it is known that nothing is left for `next_command`.
    """

    __slots__ = (
        "_buffer",
        "_chunks",
        "_missing",
        "_place",
        "_position",
        "_view_codes",
        "begun_count",
        "frame_size_max",
        "is_drained",
    )

    def __init__(
        self, frame_size_max: int = FRAME_SIZE_MAX, view_codes: Container[int] = ()
    ) -> None:
        self.frame_size_max = frame_size_max
        self._view_codes = view_codes
        self._buffer = b""
        self._position = 0
        self._chunks: list[bytes | bytearray | memoryview] = []
        self._missing = 0
        self._place: memoryview | None = None  # then it is the first of the chunks
        self.begun_count = 0
        self.is_drained = True

    @property
    def missing_size(self) -> int:
        """Bytes that the incomplete frame still lacks; 0 while its size is not known."""
        return max(self._missing, 0)

    @property
    def buffered_size(self) -> int:
        """Bytes received and not yet returned as commands."""
        size = len(self._buffer) - self._position + sum(map(len, self._chunks))
        return size if self._place is None else size - self.missing_size

    def feed(self, data: bytes) -> None:
        """Appends the next chunk of the stream, of any size."""
        self.is_drained = False
        if self._position == len(self._buffer) and not self._chunks:
            self._buffer, self._position = data, 0
        elif self._place is not None and self._missing > 0:
            fitting = min(len(data), self._missing)
            self.place_left[:fitting] = data[:fitting]
            self.placed(fitting)
            if fitting < len(data):
                self._chunks.append(data[fitting:])
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

    def make_place(self) -> bool:
        """Makes the place in which the body of the incomplete frame is gathered from now on.

        Returns whether there is one: the frame is large, and its header and nothing but the
        beginning of its body has come.
        """
        first, start = self._buffer, self._position
        if self._missing < LARGE_FRAME_SIZE or self._chunks:
            return False
        size, mark = _LENGTHS.unpack_from(first, start)
        header_size = mark & _HEADER_SIZE_MASK
        begun = len(first) - start - 8 - header_size
        if begun < 0:
            return False
        place = memoryview(bytearray(size - 4 - header_size))
        place[:begun] = memoryview(first)[len(first) - begun :]
        self._buffer, self._position = first[start : start + 8 + header_size], 0
        self._place, self._chunks = place, [place]
        return True

    @property
    def place_left(self) -> memoryview:
        """The part of the frame's place that has no bytes yet."""
        assert self._place is not None
        return self._place[-self._missing :]

    def placed(self, size: int) -> None:
        """Notes that so many bytes were written to the beginning of `place_left`."""
        self._missing -= size
        self.is_drained = False

    def next_command(self) -> Command | None:
        """Returns the next complete command, or None until more bytes are fed.

        Raises:
            FrameError: the stream is garbled; nothing after this point can be read.
        """
        if self._chunks:
            if self._missing > 0:
                return None
            command = self._large_command() if self._place is None else self._placed_command()
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
        if size >= LARGE_FRAME_SIZE and self._view_codes:
            body = memoryview(buffer)[body_start:end]
            return self._with_view(decode(buffer[start + 8 : body_start], b""), body)
        return decode(buffer[start + 8 : body_start], buffer[body_start:end])

    def _with_view(self, command: Command, body: memoryview) -> Command:
        """Gives a command its body: as it is if the command's handler takes that, else copied."""
        is_taken = command.code in self._view_codes and not command.is_response
        command.body = cast("bytes", body) if is_taken else bytes(body)
        return command

    def _placed_command(self) -> Command:
        """Returns the command whose body is complete in its place."""
        head, place, chunks = self._buffer, self._place, self._chunks
        assert place is not None
        self._buffer, self._position = b"".join(chunks[1:]), 0
        self.is_drained = not self._buffer
        self._chunks, self._place, self._missing = [], None, 0
        mark = _LENGTHS.unpack_from(head, 0)[1]
        return self._with_view(DECODERS[mark >> 24 & 0xFF](head[8:], b""), place)

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
