"""gRPC's messages within the data of a stream: a flag, the size, the message."""

from __future__ import annotations

import zlib
from struct import Struct

from pocketmq.transport.grpc.status import GrpcError, GrpcStatus

PREFIX = Struct(">BI")
"""Whether the message is compressed, and its size."""

PREFIX_SIZE = 5

GZIP_WBITS = 31


def framed(message: bytes) -> bytes:
    """A message as it travels."""
    return PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Cuts the data of a request into messages.

    Args:
        size_max: of a message, compressed or not.
        encoding: of compressed messages, as the client named it.

    Attributes:
        size: bytes that are kept for a message that is not complete.
    """

    __slots__ = ("_buffer", "_encoding", "_size_max", "size")

    def __init__(self, size_max: int, encoding: str) -> None:
        self._size_max, self._encoding = size_max, encoding
        self._buffer = bytearray()
        self.size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes data, and returns the messages that it completes.

        Raises:
            GrpcError: a message is too large, or not compressed as it says.
        """
        buffer = self._buffer
        buffer += data
        messages: list[bytes] = []
        at = 0
        while len(buffer) - at >= PREFIX_SIZE:
            flag, size = PREFIX.unpack_from(buffer, at)
            if size > self._size_max:
                raise too_large(size, self._size_max)
            end = at + PREFIX_SIZE + size
            if len(buffer) < end:
                break
            message = bytes(memoryview(buffer)[at + PREFIX_SIZE : end])
            messages.append(self._inflated(message, flag) if flag else message)
            at = end
        del buffer[:at]
        self.size = len(buffer)
        return messages

    def _inflated(self, message: bytes, flag: int) -> bytes:
        if flag != 1 or self._encoding != "gzip":
            raise GrpcError(
                GrpcStatus.INTERNAL, "a message is compressed without a grpc-encoding that says how"
            )
        inflater = zlib.decompressobj(GZIP_WBITS)
        try:
            inflated = inflater.decompress(message, self._size_max + 1)
        except zlib.error as e:
            raise GrpcError(GrpcStatus.INTERNAL, f"a message is no gzip: {e}") from None
        if len(inflated) > self._size_max:
            raise too_large(len(inflated), self._size_max)
        if not inflater.eof:
            raise GrpcError(GrpcStatus.INTERNAL, "a message is no whole gzip")
        return inflated


def too_large(size: int, size_max: int) -> GrpcError:
    """The error of a message beyond the limit."""
    return GrpcError(
        GrpcStatus.RESOURCE_EXHAUSTED,
        f"a message of {size} bytes is larger than the limit of {size_max}",
    )
