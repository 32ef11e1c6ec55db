"""Members of a group that pop, in virtual time: delays, renewals, and what becomes of the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.member_parts import Stage

from pocketmq.client import (
    Admin,
    ConsumeResult,
    Message,
    MessageQueue,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SimpleConsumer,
    UnknownTopicError,
)
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.requests.popping import (
    ALL_QUEUES,
    PollingInfoRequest,
    PollingInfoResponse,
)
from pocketmq.testing.clock import VirtualClock

POP: dict[str, Any] = {"mode": "pop"}


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock) as stage:
        yield stage


class Listener:
    """Notes what it gets and when; it answers what it is told to."""

    def __init__(self, clock: VirtualClock, answer: object = None) -> None:
        self._clock, self._answer = clock, answer
        self.seen: list[tuple[bytes, int]] = []
        self.at_s: list[float] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> object:
        self.seen += [(m.body, m.reconsume_times) for m in messages]
        self.at_s.append(self._clock.monotonic())
        await self.gate.wait()
        return self._answer


async def left(stage: Stage, group: str = "cg") -> list[bytes]:
    """What another member finds at once."""
    async with SimpleConsumer(group, stage.namesrv, clock=stage.clock) as consumer:
        consumer.subscribe("T")
        messages = await stage.done(consumer.receive(await_ms=0))
        await stage.done(consumer.ack(*messages))
    return [m.body for m in messages]


async def test_delays_are_those_of_members_that_pull(stage: Stage) -> None:
    listener = Listener(stage.clock, ConsumeResult.RETRY)
    await stage.join("a", listener, max_reconsume_times=3, **POP)
    await stage.done(stage.producer.send(Message("T", b"poison", tags="A")))
    await stage.until(lambda: len(listener.seen) == 4, 1.0)
    assert listener.seen == [(b"poison", times) for times in range(4)]
    pauses_s = [after - before for before, after in pairwise(listener.at_s)]
    assert pauses_s == pytest.approx([10, 30, 60], abs=1.5)
    async with PullConsumer("looker", stage.namesrv, clock=stage.clock) as puller:
        queues = await stage.done(dead_letter_queues(puller))
        (dead,) = (await stage.done(puller.pull(queues[0], 0))).messages
    assert (dead.body, dead.tags) == (b"poison", "A")
    assert await left(stage) == []


async def waiting_pops(stage: Stage, consumer: SimpleConsumer) -> int:
    """How many pops the broker holds."""
    request = PollingInfoRequest(consumer_group="cg", topic="T", queue_id=ALL_QUEUES)
    answer = await consumer.instance.pool.ask(stage.broker.address, request, 3_000)
    return answer.read(PollingInfoResponse).polling_num


async def dead_letter_queues(puller: PullConsumer) -> list[MessageQueue]:
    while True:
        try:
            return await puller.queues("%DLQ%cg")
        except UnknownTopicError:
            continue


async def test_a_negative_level_means_never_again(stage: Stage) -> None:
    listener = Listener(stage.clock, RetryLater(delay_level=-1))
    await stage.join("a", listener, **POP)
    await stage.send(1)
    async with PullConsumer("looker", stage.namesrv, clock=stage.clock) as puller:
        queues = await stage.done(dead_letter_queues(puller))
        assert len((await stage.done(puller.pull(queues[0], 0, hold_ms=5_000))).messages) == 1
    assert listener.seen == [(b"x", 0)]


async def test_a_slow_listener_keeps_its_messages(stage: Stage) -> None:
    listener = Listener(stage.clock)
    listener.gate.clear()
    consumer = await stage.join("a", listener, pop_invisible_ms=5_000, **POP)
    await stage.send(3)
    await stage.until(lambda: len(listener.seen) == 3)
    for _ in range(120):
        await stage.clock.advance(0.5)
    assert await left(stage) == []
    listener.gate.set()
    await stage.done(consumer.close())
    assert listener.seen == [(b"x", 0)] * 3
    assert await left(stage) == []


async def test_what_a_leaving_member_has_not_handled_is_for_others_at_once(stage: Stage) -> None:
    listener = Listener(stage.clock)
    listener.gate.clear()
    consumer = await stage.join("a", listener, concurrency=1, **POP)
    await stage.send(3)
    await stage.until(lambda: listener.seen)
    await stage.done(consumer.close())
    assert await left(stage) == [b"x"] * 3
    assert await left(stage) == []


async def test_what_takes_too_long_comes_again(stage: Stage) -> None:
    listener = Listener(stage.clock)
    listener.gate.clear()
    await stage.join("a", listener, consume_timeout_ms=60_000, **POP)
    await stage.send(1)
    await stage.until(lambda: len(listener.seen) == 2, 1.0)
    assert listener.seen == [(b"x", 0), (b"x", 1)]
    assert listener.at_s[1] - listener.at_s[0] == pytest.approx(70, abs=6)
    listener.gate.set()


async def test_a_receive_that_is_given_up_takes_nothing(stage: Stage) -> None:
    async with SimpleConsumer("cg", stage.namesrv, clock=stage.clock) as consumer:
        consumer.subscribe("T")
        receiving = asyncio.ensure_future(consumer.receive())
        while not await stage.done(waiting_pops(stage, consumer)):
            pass
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        await stage.send(1)
        (message,) = await stage.done(consumer.receive())
        assert message.reconsume_times == 0


async def test_a_message_survives_a_restart_of_the_broker(stage: Stage) -> None:
    listener = Listener(stage.clock)
    await stage.join("a", listener, **POP)
    await stage.send(1)
    await stage.until(lambda: listener.seen)
    await stage.restart()
    await stage.send(1)
    await stage.until(lambda: len(listener.seen) == 2)
    assert listener.seen == [(b"x", 0)] * 2


async def test_messages_that_members_sent_back_which_pull_are_pulled(stage: Stage) -> None:
    fails = Listener(stage.clock, RetryLater(delay_level=3))
    puller = await stage.join("a", fails, mode="pull")
    await stage.send(1)
    await stage.until(lambda: fails.seen)
    await stage.until(lambda: puller.queues == [] or len(fails.seen) == 1)
    await stage.done(puller.close())
    handles = Listener(stage.clock)
    await stage.join("b", handles, **POP)
    await stage.until(lambda: handles.seen, 1.0)
    assert handles.seen == [(b"x", 1)]


async def test_brokers_see_a_member_that_pops(stage: Stage) -> None:
    listener = Listener(stage.clock)
    consumer = await stage.join("a", listener, **POP)
    await stage.send(2)
    await stage.until(lambda: len(listener.seen) == 2)
    async with Admin(stage.namesrv, clock=stage.clock) as admin:
        stats = await stage.done(admin.consume_stats("cg", "T"))
    assert sum(row.lag for row in stats) == 0
    assert [queue.queue_id for queue in consumer.queues] == [-1]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"orderly": True}, "orderly and broadcasting"),
        ({"message_model": "BROADCASTING"}, "orderly and broadcasting"),
        ({"consume_from_where": "CONSUME_FROM_TIMESTAMP"}, "consumers that pop begin at"),
        ({"mode": "push"}, "mode='push' is none of"),
        ({"pop_invisible_ms": 10}, "pop_invisible_ms=10 does not fit"),
    ],
)
def test_settings_that_do_not_go_with_pops_are_refused(settings: dict[str, Any], text: str) -> None:
    async def listener(messages: list[ReceivedMessage]) -> None: ...

    with pytest.raises(ConfigError, match=text):
        PushConsumer("cg", "127.0.0.1:1", listener=listener, **(POP | settings))


async def test_simple_consumers_say_what_is_wrong(stage: Stage) -> None:
    async with SimpleConsumer("cg", stage.namesrv, clock=stage.clock) as consumer:
        with pytest.raises(UsageError, match="call subscribe"):
            await consumer.receive()
        consumer.subscribe("T")
        with pytest.raises(UsageError, match="max_messages=33"):
            await consumer.receive(33)
        await stage.send(1)
        async with PullConsumer("other", stage.namesrv, clock=stage.clock) as puller:
            (queue,) = await stage.done(puller.queues("T"))
            (message,) = (await stage.done(puller.pull(queue, 0))).messages
        with pytest.raises(UsageError, match="has no receipt handle"):
            await consumer.ack(message)
