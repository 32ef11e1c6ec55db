"""Parts of a queue as pulls bring them: stored records back to back, and where each begins.

A PocketMQ broker tells the sizes of the records; in what other brokers send they have to be found
one after the other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.record_columns import RECORD_SIZES, parts_at
from pocketmq.protocol.messages.records import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN

Ints = npt.NDArray[np.int64]

_SIZE_MAGIC = struct.Struct(">II")


class RecordPart(NamedTuple):
    """Stored records back to back, as a pull brings them.

    Attributes:
        data: the bytes; sizes that the broker has added may stand behind the records.
        bounds: where each record begins and the last one ends; None if the broker gave no sizes.
    """

    data: bytes
    bounds: Ints | None = None

    def __bool__(self) -> bool:
        return bool(self.data)


def sized_part(body: bytes, size_count: int) -> RecordPart:
    """Makes a part of the body of a bulk pull, and checks the sizes behind its records.

    Args:
        body: of the answer.
        size_count: how many sizes stand behind the records; 0 for none.

    Raises:
        ContentError: the sizes do not fit the records.
    """
    if not size_count:
        return RecordPart(body)
    return RecordPart(body, _bounds_from_sizes(body, size_count))


def _bounds_from_sizes(body: bytes, size_count: int) -> Ints:
    """Computes where the records of a bulk pull begin and end from the sizes behind them."""
    end = len(body) - size_count * RECORD_SIZES.itemsize
    if size_count < 0 or end < size_count * RECORD_SIZE_MIN:
        raise ContentError(f"{size_count} messages and their sizes do not fit {len(body)} bytes")
    bounds = np.zeros(size_count + 1, np.int64)
    np.cumsum(np.frombuffer(body, RECORD_SIZES, size_count, end), out=bounds[1:])
    if bounds[-1] != end or int(np.diff(bounds).min()) < RECORD_SIZE_MIN:
        raise ContentError(f"the sizes of {size_count} messages do not fit {end} bytes")
    heads = parts_at(body, bounds[:-1], _SIZE_MAGIC.size).view(">u4")
    is_wrong = heads[:, 0] != np.diff(bounds)
    is_wrong |= (heads[:, 1] != MAGIC_V1) & (heads[:, 1] != MAGIC_V2)
    if is_wrong.any():
        raise ContentError(f"no stored message at byte {bounds[np.argmax(is_wrong)]}")
    return bounds


def joined(parts: Sequence[RecordPart]) -> RecordPart:
    """Joins parts to one; it has bounds if all of them have."""
    if len(parts) == 1:
        return parts[0]
    ends = [len(p.data) if p.bounds is None else int(p.bounds[-1]) for p in parts]
    data = b"".join(memoryview(p.data)[:end] for p, end in zip(parts, ends, strict=True))
    known = [p.bounds for p in parts if p.bounds is not None]
    if not parts or len(known) < len(parts):
        return RecordPart(data)
    starts = np.cumsum([0, *ends])
    moved = [bounds[:-1] + start for bounds, start in zip(known, starts, strict=False)]
    return RecordPart(data, np.concatenate([*moved, starts[-1:]]))


def record_bounds(data: bytes) -> Ints:
    """Finds where each record begins and the last one ends, going from one to the next.

    Raises:
        ContentError: these bytes are not stored records back to back.
    """
    bounds, position, end = [0], 0, len(data)
    unpack = _SIZE_MAGIC.unpack_from
    while position < end:
        try:
            size, magic = unpack(data, position)
        except struct.error as e:
            raise ContentError(f"the stored message at byte {position} is cut off") from e
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_SIZE_MIN <= size <= end - position:
            raise ContentError(
                f"no stored message at byte {position}: magic {magic:#x}, size {size} of "
                f"{end - position}"
            )
        position += size
        bounds.append(position)
    return np.array(bounds, np.int64)
