"""Many stored records at once, as numpy arrays over the bytes that hold them.

Only bulk requests and Spark need this module: importing it imports numpy.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.messages.records import BODY_SIZE_AT_V4

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

RECORD_HEAD = np.dtype(
    [
        ("total", ">i4"),
        ("magic", ">u4"),
        ("body_crc", ">u4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">u4"),
        ("born_timestamp", ">i8"),
        ("born_host", "u1", (IPV4_HOST_SIZE,)),
        ("store_timestamp", ">i8"),
        ("store_host", "u1", (IPV4_HOST_SIZE,)),
        ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"),
        ("body_size", ">i4"),
    ]
)
"""A stored record with IPv4 hosts up to its body (see `pocketmq.protocol.messages.records`)."""
assert RECORD_HEAD.itemsize == BODY_SIZE_AT_V4 + 4

RECORD_SIZES = np.dtype(">u4")
"""The sizes of records, which bulk requests carry behind them: else their bounds could only be
found one after the other."""

EQUAL_SIZE_MAX = 4096
"""Parts of one size are copied side by side before their CRCs are made, unless they are larger."""

TOGETHER_SIZE = 256 * 1024
"""Bytes that are copied side by side: they stay in the CPU's cache until their CRCs are made."""


def parts_at(data: bytes | bytearray | memoryview, at: Ints, size: int) -> Bytes:
    """Copies the parts of one size that begin at these positions, one into each row.

    The caller makes sure that all of them lie within the data.
    """
    if not len(at):
        return np.empty((0, size), np.uint8)
    # Elements of such a type are moved whole: five times as fast as byte by byte.
    everywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    rows: Bytes = everywhere[at].view(np.uint8).reshape(len(at), size)
    return rows


def put_at(data: bytearray | memoryview, at: Ints, rows: Bytes) -> None:
    """Writes each row at its position; a single row is written at all of them."""
    size = rows.shape[-1]
    everywhere = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    everywhere[at] = rows.reshape(-1).view(f"V{size}")


def crcs_at(
    data: bytes | bytearray | memoryview, starts: Ints, sizes: Ints
) -> npt.NDArray[np.uint32]:
    """Computes the CRC-32 of each part, 31 bits, as a record holds it of its body."""
    count = len(starts)
    found: Iterable[int]
    if count > 1 and 0 < sizes[0] <= EQUAL_SIZE_MAX and (sizes == sizes[0]).all():
        size = int(sizes[0])
        step = TOGETHER_SIZE // size
        pieces = (parts_at(data, starts[at : at + step], size) for at in range(0, count, step))
        found = chain.from_iterable(
            map(crc32, piece.reshape(-1).view(f"V{size}").tolist()) for piece in pieces
        )
    else:
        view = memoryview(data)
        ends = (starts + sizes).tolist()
        found = [crc32(view[at:end]) for at, end in zip(starts.tolist(), ends, strict=True)]
    crcs = np.fromiter(found, np.uint32, count)
    crcs &= np.uint32(0x7FFFFFFF)
    return crcs
