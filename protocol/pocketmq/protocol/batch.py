"""Client batches: the body of 320, and of 310 with `batch` (wire.md §3.4).

Entries back to back: ``4 totalSize | 4 magic 0 | 4 bodyCRC 0 | 4 flag | 4 bodyLen | body |
2 propsLen | props``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.protocol.errors import ContentError

_HEAD = struct.Struct(">iiiii")
_SHORT = struct.Struct(">H")
ENTRY_OVERHEAD = _HEAD.size + _SHORT.size
assert ENTRY_OVERHEAD == 22


class BatchEntry(NamedTuple):
    """One message of a client batch; `properties` are encoded."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(entries: Sequence[BatchEntry]) -> bytes:
    """The body of a batch send."""
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


def decode_batch(data: bytes) -> list[BatchEntry]:
    """The messages of a batch send.

    Raises:
        ContentError: an entry is cut off or its lengths contradict each other.
    """
    entries, position, end = [], 0, len(data)
    while position < end:
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
        entries.append(
            BatchEntry(
                flag,
                data[body_at : body_at + body_size],
                data[properties_at:entry_end],
            )
        )
        position = entry_end
    return entries
