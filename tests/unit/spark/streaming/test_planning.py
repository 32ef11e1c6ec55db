"""How far a batch goes: queues that come, go, shrink, or do not answer."""

from __future__ import annotations

import pytest

from pocketmq.client.errors import BrokerDownError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import ClosedQueueError, DataLossError
from pocketmq.spark.streaming.limits import BatchLimits
from pocketmq.spark.streaming.offsets import Offsets, Position
from pocketmq.spark.streaming.options import StreamOptions
from pocketmq.spark.streaming.planning import next_position, waiting
from pocketmq.spark.streaming.survey import Span, Survey
from pocketmq.testing.clock import VirtualClock

Q0, Q1, Q2 = (MessageQueue("T", "a", i) for i in range(3))


def plan(
    start: Position,
    held: dict[MessageQueue, Span],
    closed: dict[MessageQueue, Span] | None = None,
    *,
    targets: Offsets | None = None,
    fails: bool = True,
    most: int | None = None,
) -> Position:
    silent = {q: BrokerDownError("T", "a") for q in start.offsets if q not in held}
    found = Survey(held, {q: e for q, e in silent.items() if q not in (closed or {})}, closed or {})
    options = StreamOptions(subscribe="T", max_offsets_per_trigger=most)
    now = waiting(start, found, targets, fail_on_data_loss=fails)
    return next_position(start, now, BatchLimits(options, VirtualClock()), is_limited=True)


def test_nothing_new_is_the_start_itself() -> None:
    start = Position({Q0: 5}, {}, is_first=True)
    assert plan(start, {Q0: (0, 5)}) is start


def test_a_first_batch_says_where_the_query_began() -> None:
    start = Position({Q0: 5, Q1: 7}, {}, is_first=True)
    assert plan(start, {Q0: (0, 9), Q1: (0, 7)}) == Position({Q0: 9, Q1: 7}, {Q0: 5, Q1: 7})


def test_later_batches_go_on() -> None:
    start = Position({Q0: 5, Q1: 7}, {Q0: 1})
    assert plan(start, {Q0: (0, 9), Q1: (0, 8)}) == Position({Q0: 9, Q1: 8}, {})


def test_new_queues_are_read_from_their_start_once_they_hold_something() -> None:
    start = Position({Q0: 5}, {})
    assert plan(start, {Q0: (0, 5), Q1: (0, 0)}) is start
    found = plan(start, {Q0: (0, 5), Q1: (3, 8), Q2: (2, 2)})
    assert found == Position({Q0: 5, Q1: 8}, {Q1: 3})


def test_a_limited_batch_takes_something_of_every_queue() -> None:
    start = Position({Q0: 0, Q1: 0}, {})
    found = plan(start, {Q0: (0, 1000), Q1: (0, 1), Q2: (0, 0)}, most=10)
    assert found.offsets == {Q0: 9, Q1: 1}


def test_a_queue_that_does_not_answer_stays_where_it_is() -> None:
    start = Position({Q0: 5, Q1: 7}, {})
    assert plan(start, {Q0: (0, 9)}) == Position({Q0: 9, Q1: 7}, {})


def test_a_trigger_that_ends_reads_nothing_that_came_later() -> None:
    start, targets = Position({Q0: 5, Q1: 7}, {}), {Q0: 6, Q1: 7}
    found = plan(start, {Q0: (0, 9), Q1: (0, 8), Q2: (0, 4)}, targets=targets)
    assert found == Position({Q0: 6, Q1: 7}, {})
    assert plan(found, {Q0: (0, 9), Q1: (0, 8), Q2: (0, 4)}, targets=targets) is found


@pytest.mark.parametrize("held", [(6, 9), (0, 4)])
def test_messages_that_are_gone(held: Span) -> None:
    start = Position({Q0: 5, Q1: 0}, {})
    reason = "messages were deleted" if held[0] > 5 else "the topic was deleted and made again"
    wanted = rf"T@a:0: offsets 5 to {max(5, held[1])} .* holds {held[0]} to {held[1]}: {reason}"
    with pytest.raises(DataLossError, match=wanted):
        plan(start, {Q0: held, Q1: (0, 0)})
    found = plan(start, {Q0: held, Q1: (0, 0)}, fails=False)
    assert found == Position({Q0: held[1], Q1: 0}, {Q0: held[0]})


def test_a_queue_that_is_gone() -> None:
    start = Position({Q0: 5, Q1: 7}, {})
    assert plan(start, {Q0: (0, 9)}, {Q1: (0, 7)}) == Position({Q0: 9}, {}), "it was read"
    with pytest.raises(ClosedQueueError, match=r"T@a:1 .*deleted.*stands at offset 7.*0 to 0"):
        plan(start, {Q0: (0, 9)}, {Q1: (0, 0)})
    assert plan(start, {Q0: (0, 9)}, {Q1: (0, 9)}, fails=False) == Position({Q0: 9}, {})
