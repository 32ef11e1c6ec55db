"""Client batches: the body of 320, and of 310 with `batch` (wire.md §3.4).

Entries back to back: ``4 totalSize | 4 magic 0 | 4 bodyCRC 0 | 4 flag | 4 bodyLen | body |
2 propsLen | props``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from pocketmq.protocol.errors import ContentError

_HEAD = struct.Struct(">iiiii")
assert _HEAD.size == 20
_SHORT = struct.Struct(">H")
ENTRY_OVERHEAD = _HEAD.size + _SHORT.size
assert ENTRY_OVERHEAD == 22


class BatchEntry(NamedTuple):
    """One message of a client batch, with encoded properties."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(entries: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """Encodes messages as the body of a batch send."""
    parts: list[bytes] = []
    for flag, body, properties in entries:
        total = ENTRY_OVERHEAD + len(body) + len(properties)
        parts += (
            _HEAD.pack(total, 0, 0, flag, len(body)),
            body,
            _SHORT.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Reads flag, body and properties of each message of a batch send.

    Raises:
        ContentError: an entry is cut off or its lengths contradict each other.
    """
    entries = _decode_alike(data)
    return _decode_one_by_one(data) if entries is None else entries


def batch_portions(data: bytes, size: int) -> Iterator[list[tuple[int, bytes, bytes]]]:
    """Reads a batch as `decode_batch` does, portion by portion.

    Args:
        data: the batch.
        size: bytes of each portion, or one message more.

    Raises:
        ContentError: as `decode_batch`, once the portions before are read.
    """
    position, end = 0, len(data)
    while position < end:
        total = int.from_bytes(data[position : position + 4], "big")
        stop = position + max(size // total if total else 0, 1) * total
        entries = _decode_alike(data[position : min(stop, end)])
        if entries is None:
            entries, position = _decode_from(data, position, position + size)
        else:
            position += total * len(entries)
        yield entries


def _decode_alike(data: bytes) -> list[tuple[int, bytes, bytes]] | None:
    """Reads a batch whose messages all have the same sizes, which many batches do, in one call."""
    if len(data) < ENTRY_OVERHEAD:
        return None
    total, _, _, _, body_size = _HEAD.unpack_from(data)
    properties_size = total - ENTRY_OVERHEAD - body_size
    if body_size < 0 or properties_size < 0 or len(data) % total:
        return None
    entries: list[tuple[int, bytes, bytes]] = []
    for size, flag, size_of_body, body, size_of_properties, properties in _alike(
        body_size, properties_size
    ).iter_unpack(data):
        if size != total or size_of_body != body_size or size_of_properties != properties_size:
            return None
        entries.append((flag, body, properties))
    return entries


@lru_cache(maxsize=64)
def _alike(body_size: int, properties_size: int) -> struct.Struct:
    return struct.Struct(f">i8xii{body_size}sH{properties_size}s")


def _decode_one_by_one(data: bytes) -> list[tuple[int, bytes, bytes]]:
    return _decode_from(data, 0, len(data))[0]


def _decode_from(
    data: bytes, position: int, stop: int
) -> tuple[list[tuple[int, bytes, bytes]], int]:
    """Reads the entries that begin before a position; returns them and where the last one ends."""
    entries: list[tuple[int, bytes, bytes]] = []
    end = len(data)
    stop = min(stop, end)
    while position < stop:
        if end - position < ENTRY_OVERHEAD:
            raise ContentError(f"the batch ends inside the entry at byte {position}")
        total, _, _, flag, body_size = _HEAD.unpack_from(data, position)
        body_at = position + _HEAD.size
        properties_at = body_at + body_size + 2
        if body_size < 0 or properties_at > end:
            raise ContentError(
                f"the batch entry at byte {position} has a body of {body_size} bytes"
            )
        (properties_size,) = _SHORT.unpack_from(data, properties_at - 2)
        entry_end = properties_at + properties_size
        if entry_end - position != total or entry_end > end:
            raise ContentError(f"the batch entry at byte {position} announces {total} bytes")
        body = data[body_at : body_at + body_size]
        entries.append((flag, body, data[properties_at:entry_end]))
        position = entry_end
    return entries, position
