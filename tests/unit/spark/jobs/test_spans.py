"""Sets of offsets of queues: what is missing in them, and portions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.jobs.messages import partitions
from pocketmq.spark.jobs.spans import Spans, slices
from pocketmq.spark.options import read_options
from pocketmq.spark.reading.offsets import Range

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 1)
bounds = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted)


@given(st.lists(bounds), bounds)
def test_done_and_missing_are_the_whole_range(done: list[list[int]], whole: list[int]) -> None:
    spans = Spans(Range(A, *pair) for pair in done)
    offsets = {o for start, end in done for o in range(start, end)}
    missing = [o for r in spans.missing(Range(A, *whole)) for o in range(r.start, r.end)]
    assert missing == [o for o in range(*whole) if o not in offsets]
    assert spans.size == len(offsets)
    assert spans.missing(Range(B, 0, 3)) == [Range(B, 0, 3)]
    again = Spans.of(json.loads(json.dumps(spans.table())))
    assert list(again) == list(spans)


@given(st.lists(bounds, max_size=5), st.integers(1, 20))
def test_slices_take_everything_once_and_in_order(pairs: list[list[int]], rows_max: int) -> None:
    ranges = [r for queue in (A, B) for r in Spans(Range(queue, *pair) for pair in pairs)]
    ranges = [Range(q, r.start, r.end) for q in (A, B) for r in ranges if r.queue == A]
    parts = slices(ranges, rows_max)
    for part in parts:
        assert 0 < sum(r.size for r in part) <= rows_max + len(part)
        assert len({r.queue for r in part}) == len(part)
    for queue in (A, B):
        taken = [o for part in parts for r in part if r.queue == queue for o in range(*r[1:])]
        assert taken == [o for r in ranges if r.queue == queue for o in range(*r[1:])]


async def test_queues_without_a_range_give_nothing() -> None:
    pytest.importorskip("pyspark")
    options = read_options({"namesrvAddr": "127.0.0.1:9", "subscribe": "T"})
    found = await partitions(options, [Range(A, 3, 9)])
    assert [p.wanted for p in found] == [Range(A, 3, 9)]


def test_the_end_of_a_queue() -> None:
    spans = Spans([Range(A, 1, 4), Range(A, 6, 8)])
    assert (spans.end(A), spans.end(B)) == (8, 0)
    assert bool(spans)
    assert not Spans([Range(A, 2, 2)])
