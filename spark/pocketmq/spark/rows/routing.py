"""Chooses the queue of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]


class Routed(NamedTuple):
    """Rows sorted by queue.

    Attributes:
        order: the rows in their new order; None if they stay as they are.
        queues: of each row in its new order, the index of its queue.
        groups: where in the new order another queue begins, and the number of rows.
    """

    order: Ints | None
    queues: Ints
    groups: Sequence[int]


def in_turn(rows: int, queues: Sequence[int], first_queue: int) -> Routed:
    """Spreads rows that may go anywhere: one run of rows for each queue, all of about one length.

    Args:
        rows: how many.
        queues: indices of the queues that may be used.
        first_queue: which of them is first, counted on from block to block, so that small blocks
            do not all begin at the same one.
    """
    runs = min(rows, len(queues))
    bounds = np.linspace(0, rows, runs + 1).astype(np.int64)
    chosen = np.array(queues, np.int64)[(first_queue + np.arange(runs)) % len(queues)]
    return Routed(None, np.repeat(chosen, np.diff(bounds)), bounds[1:].tolist())


def by_queue(queues: Ints) -> Routed:
    """Groups rows whose queue is known; the order within each queue is kept."""
    order = np.argsort(queues, kind="stable")
    sorted_queues = queues[order]
    changes = np.flatnonzero(np.diff(sorted_queues)) + 1
    return Routed(order, sorted_queues, [*changes.tolist(), len(queues)])


def hashed(keys: Any, queue_count: int) -> Ints:
    """Returns the queue of each key: that of the hash selector of RocketMQ's Java client."""
    queues: Ints = np.abs(java_hashes(keys).astype(np.int64)) % queue_count
    return queues


def java_hashes(texts: Any) -> npt.NDArray[np.int32]:
    """Computes Java's ``String.hashCode`` of each text of an Arrow array; nulls count as empty.

    The hash is a polynomial in 31 over UTF-16 units. All texts are taken as one row of units; each
    unit is multiplied with the power of its distance from the end of its text, and the products of
    each text are summed.
    """
    rows = len(texts)
    texts = texts.fill_null("")
    offsets = np.frombuffer(texts.buffers()[1], np.int32, rows + 1, texts.offset * 4).astype(
        np.int64
    )
    data = bytes(memoryview(texts.buffers()[2] or b"")[offsets[0] : offsets[-1]])
    offsets -= offsets[0]
    units = np.frombuffer(data, np.uint8)
    if data.isascii():
        ends = offsets
    else:
        # A byte that begins a character stands for one unit, for two if four bytes follow it.
        begins = np.where((units & 0xC0) != 0x80, 1 + (units >= 0xF0), 0)
        ends = np.concatenate(([0], np.cumsum(begins)))[offsets]
        units = np.frombuffer(data.decode().encode("utf-16-le"), np.uint16)
    if len(units) == 0:
        return np.zeros(rows, np.int32)
    sizes = np.diff(ends)
    from_end = np.repeat(ends[1:], sizes) - 1 - np.arange(len(units))
    powers = np.ones(int(sizes.max()), np.uint32)
    powers[1:] = 31
    powers = np.cumprod(powers, dtype=np.uint32)
    products = units.astype(np.uint32) * powers[from_end]
    sums = np.concatenate((np.zeros(1, np.uint32), np.cumsum(products, dtype=np.uint32)))
    return (sums[ends[1:]] - sums[ends[:-1]]).view(np.int32)


def concatenated(batches: Sequence[Any]) -> Any:
    """Joins record batches of one schema to one."""
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
