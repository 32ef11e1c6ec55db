"""Frames of HTTP/2: their kinds, flags and error codes, and how they are written."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_SIZE = 9
FRAME_SIZE_MAX = 16_384
"""The largest payload that is taken and sent: what every peer takes without being asked."""

WINDOW_MAX = 2**31 - 1
WINDOW_DEFAULT = 65_535

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20

ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 2, 3, 4, 5
MAX_HEADER_LIST_SIZE = 6

HEAD = Struct(">HBBBI")
"""The size's high 16 bits and low 8 bits, kind, flags, stream."""
SETTING = Struct(">HI")
UINT32 = Struct(">I")


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):
    """The peer broke a rule that ends the connection.

    Attributes:
        code: for the GOAWAY frame.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamFault(Exception):
    """The peer broke a rule that ends one stream.

    Attributes:
        code: for the RST_STREAM frame.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """The 9 bytes before a payload of a size."""
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    size = len(payload)
    return HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*item) for item in values.items()))


def window_update(stream: int, size: int) -> bytes:
    """A WINDOW_UPDATE frame; stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream, UINT32.pack(size))


def reset(stream: int, code: ErrorCode) -> bytes:
    """A RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, UINT32.pack(code))


def goaway(last_stream: int, code: ErrorCode, text: str = "") -> bytes:
    """A GOAWAY frame; the text is for those who debug the peer."""
    payload = UINT32.pack(last_stream) + UINT32.pack(code) + text.encode()
    return frame(GOAWAY, 0, 0, payload)


def without_padding(payload: bytes) -> bytes:
    """The payload of a padded frame.

    Raises:
        ConnectionFault: there is more padding than payload.
    """
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - payload[0]]
