"""Blocks of rows are neither too small nor too large, whatever Spark hands over."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pocketmq.spark.writing.writer import BLOCK_BYTES, BLOCK_ROWS, blocks


def batch(first: int, rows: int, size: int = 10) -> pa.RecordBatch:
    return pa.record_batch({"value": [f"{first + i:0{size}}".encode() for i in range(rows)]})


@given(st.lists(st.integers(0, 200), max_size=12))
def test_blocks_hold_all_rows_in_order(sizes: list[int]) -> None:
    first, batches = 0, []
    for size in sizes:
        batches.append(batch(first, size))
        first += size
    out = [value for block in blocks(iter(batches)) for value in block["value"].to_pylist()]
    assert out == batch(0, first)["value"].to_pylist()


def test_small_batches_are_collected() -> None:
    found = list(blocks(batch(i * 1000, 1000) for i in range(100)))
    assert [b.num_rows for b in found] == [65_000, 35_000]


def test_large_batches_are_cut() -> None:
    by_rows = list(blocks(iter([batch(0, 3 * BLOCK_ROWS)])))
    assert max(b.num_rows for b in by_rows) <= BLOCK_ROWS
    by_size = list(blocks(iter([batch(0, 30, BLOCK_BYTES // 10)])))
    assert max(b.nbytes for b in by_size) <= BLOCK_BYTES
    assert sum(b.num_rows for b in by_size) == 30


def test_a_row_larger_than_a_block_is_a_block() -> None:
    assert [b.num_rows for b in blocks(iter([batch(0, 3, BLOCK_BYTES + 1)]))] == [1, 1, 1]
