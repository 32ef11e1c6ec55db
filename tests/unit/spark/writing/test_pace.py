"""A limit to the rows of a second."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pocketmq.spark.writing.pace import Pace
from pocketmq.testing.clock import VirtualClock


def test_rows_wait_for_their_time() -> None:
    clock = VirtualClock()
    pace = Pace(100, clock)
    waits = [pace.pause_s(10) for _ in range(4)]
    assert waits == pytest.approx([0.0, 0.1, 0.2, 0.3])
    clock.block(10)
    # What was not sent meanwhile is not made up for.
    assert [pace.pause_s(10), pace.pause_s(10)] == pytest.approx([0.0, 0.1])


def test_without_a_rate_a_block_stays_whole() -> None:
    block = pa.record_batch({"value": pa.array([b"x"] * 1000)})
    assert list(Pace(0, VirtualClock()).pieces(block)) == [block]


def test_pieces_are_all_rows_in_order() -> None:
    block = pa.record_batch({"value": pa.array([bytes([i]) for i in range(25)])})
    clock = VirtualClock()
    pace = Pace(100, clock)
    pieces = pace.pieces(block)
    got = []
    for _ in range(3):
        piece = next(pieces)
        got += piece["value"].to_pylist()
        assert piece.num_rows <= 10
        clock.block(1)
    assert got == block["value"].to_pylist()
    assert next(pieces, None) is None
