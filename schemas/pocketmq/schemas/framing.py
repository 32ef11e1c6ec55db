"""The frame before the bytes of a body: which schema of the registry they are written by.

The layout is Confluent's wire format, which serializers of Kafka write: a zero byte, the schema's
id as four bytes, the most significant first, and for Protobuf the place of the message type in its
file, as numbers in zigzag varints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.schemas.errors import BodyError

MAGIC = 0
HEADER_SIZE = 5

DEPTH_MAX = 32
"""How deep a message type of Protobuf may be nested in others."""

_VARINT_SIZE_MAX = 5


class Framed(NamedTuple):
    """A body, taken apart.

    Attributes:
        schema_id: of the registry.
        payload: what follows the frame; with the message indexes if it is Protobuf.
    """

    schema_id: int
    payload: bytes


def is_framed(body: bytes) -> bool:
    """Whether a body begins as a frame does."""
    return len(body) >= HEADER_SIZE and body[0] == MAGIC


def framed(schema_id: int, payload: bytes) -> bytes:
    """Puts the frame before a payload."""
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big") + payload


def unframed(body: bytes) -> Framed:
    """Takes the frame off a body.

    Raises:
        BodyError: the body has no frame.
    """
    if not is_framed(body):
        raise BodyError(
            "the body has no frame that names a schema of the registry: it begins with "
            f"{body[:HEADER_SIZE].hex(' ') or 'nothing'}, and would with 00 and an id of 4 bytes; "
            "give the schema itself if the sender writes none"
        )
    return Framed(int.from_bytes(body[1:HEADER_SIZE], "big"), body[HEADER_SIZE:])


def message_indexes_bytes(indexes: Sequence[int]) -> bytes:
    """Writes the place of a message type in its file: the first one is a single zero byte."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def split_message_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Takes the place of the message type off a payload of Protobuf.

    Raises:
        BodyError: the payload does not begin with such a place.
    """
    count, at = _number(payload, 0)
    if count == 0:
        return (0,), payload[at:]
    if not 0 < count <= DEPTH_MAX:
        raise BodyError(f"the frame says that its message type is nested {count} deep")
    indexes = []
    for _ in range(count):
        index, at = _number(payload, at)
        indexes.append(index)
    return tuple(indexes), payload[at:]


def _varint(number: int) -> bytes:
    zigzag, out = number << 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """Reads a zigzag varint that is not negative; returns it and where it ends."""
    zigzag = 0
    for i, byte in enumerate(payload[at : at + _VARINT_SIZE_MAX]):
        zigzag |= (byte & 0x7F) << 7 * i
        if not byte & 0x80:
            if zigzag & 1:
                break
            return zigzag >> 1, at + i + 1
    raise BodyError("the frame does not say which message type of its schema the body is of")
