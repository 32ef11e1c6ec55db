from __future__ import annotations

import pytest

from pocketmq.client.copying.queue_plan import QueuePlan
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import Message, MessageQueue

A0, A1, B0 = (
    MessageQueue("T", broker, number) for broker, number in (("a", 0), ("a", 1), ("b", 0))
)
PLAIN = Message("T", b"x")


def test_the_same_queue_is_kept() -> None:
    plan = QueuePlan([A0, A1, B0])
    assert plan.queue_for(PLAIN, "b", 0) == B0
    assert plan.queue_for(Message("T", b"x", sharding_key="s"), "a", 1) == A1


def test_the_messages_of_a_queue_that_is_not_there_stay_together() -> None:
    plan = QueuePlan([A0, A1, B0])
    chosen = {number: plan.queue_for(PLAIN, "c", number) for number in range(20)}
    assert set(chosen.values()) == {A0, A1, B0}
    assert chosen == {number: plan.queue_for(PLAIN, "c", number) for number in range(20)}


def test_a_number_alone_is_enough_with_one_broker() -> None:
    assert QueuePlan([A0, A1], is_strict=True).queue_for(PLAIN, None, 1) == A1
    with pytest.raises(UsageError, match="no broker given"):
        QueuePlan([A0, A1, B0], is_strict=True).queue_for(PLAIN, None, 1)


def test_sharding_keys_decide_and_the_rest_takes_turns() -> None:
    plan = QueuePlan([A0, A1, B0])
    assert [plan.queue_for(PLAIN) for _ in range(4)] == [A0, A1, B0, A0]
    keyed = Message("T", b"x", sharding_key="s")
    assert len({plan.queue_for(keyed) for _ in range(4)}) == 1


def test_some_queues_have_to_be_named() -> None:
    plan = QueuePlan([A0], is_strict=True, named=[A0, A1])
    assert [plan.queue_for(PLAIN) for _ in range(2)] == [A0, A0]
    assert plan.queue_for(PLAIN, "a", 1) == A1
    with pytest.raises(
        UsageError, match="T has no queue b:0 that can be written to; it has a:0, a"
    ):
        plan.queue_for(PLAIN, "b", 0)
