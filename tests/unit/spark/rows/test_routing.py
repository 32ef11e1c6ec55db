"""Rows find the queue that RocketMQ's own selector would choose, and keep their order in it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client.producers.selectors import by_hash as select_by_hash
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.messages.properties import java_hash
from pocketmq.spark.rows.routing import by_queue, hashed, in_turn, java_hashes

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=30)


@given(TEXTS, st.integers(0, 3))
def test_hashes_are_those_of_java(texts: list[str], lead: int) -> None:
    array = pa.array(["lead"] * lead + texts, pa.string()).slice(lead)
    assert java_hashes(array).tolist() == [java_hash(t) for t in texts]


def test_known_hashes_of_java() -> None:
    assert java_hashes(pa.array(["hello", "", None, "polygenelubricants"])).tolist() == [
        99162322,
        0,
        0,
        -(2**31),
    ]


@given(TEXTS, st.integers(1, 20))
def test_equal_keys_go_where_the_hash_selector_sends_them(texts: list[str], count: int) -> None:
    queues = [MessageQueue("T", "a", i) for i in range(count)]
    routed = by_queue(hashed(pa.array(texts), count))
    assert routed.order is not None
    for row, queue in zip(routed.order.tolist(), routed.queues.tolist(), strict=True):
        message = Message("T", b"x", sharding_key="unused")
        assert select_by_hash(queues, message, texts[row]) == queues[queue]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_rows_of_a_queue_keep_their_order(queues: list[int]) -> None:
    routed = by_queue(np.array(queues))
    assert routed.order is not None
    start = 0
    for end in routed.groups:
        rows = routed.order[start:end].tolist()
        assert rows == sorted(rows)
        assert len({queues[row] for row in rows}) == 1
        start = end
    assert start == len(queues)
    assert sorted(routed.order.tolist()) == list(range(len(queues)))


@given(st.integers(1, 500), st.integers(1, 20), st.integers(0, 100))
def test_rows_in_turn_are_spread_evenly(rows: int, count: int, first_queue: int) -> None:
    usable = [2 * i for i in range(count)]
    routed = in_turn(rows, usable, first_queue)
    spread = Counter(routed.queues.tolist())
    assert set(spread) <= set(usable)
    assert len(spread) == min(rows, count)
    assert max(spread.values()) - min(spread.values()) <= 1
    assert routed.queues[0] == usable[first_queue % count]
    assert routed.groups[-1] == rows
