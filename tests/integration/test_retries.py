"""What becomes of messages that a push consumer does not handle, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from support.brokers.member_parts import Stage

from pocketmq.client import Admin, Message, PullConsumer, ReceivedMessage, RetryLater
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.testing.clock import VirtualClock

LADDER_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""The levels 3 to 18: how long a message waits for its next attempt."""


class Attempt(NamedTuple):
    """When a listener got a message, and how."""

    at_s: float
    times: int
    topic: str


class Failing:
    """A listener that handles nothing."""

    def __init__(self, clock: VirtualClock, answer: RetryLater | None = None) -> None:
        self._clock, self._answer = clock, answer
        self.attempts: list[Attempt] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> RetryLater:
        (message,) = messages
        now_s = self._clock.monotonic()
        self.attempts.append(Attempt(now_s, message.reconsume_times, message.topic))
        await self.gate.wait()
        if self._answer is None:
            raise ValueError("poison")
        return self._answer


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock, is_quiet=True) as stage:
        yield stage


async def dead(stage: Stage) -> list[ReceivedMessage]:
    """What lies among the dead letters of the group."""
    async with PullConsumer("looker", stage.namesrv, clock=stage.clock) as consumer:
        queues = await stage.done(consumer.queues("%DLQ%cg"))
        pulls = [await stage.done(consumer.pull(queue, 0)) for queue in queues]
    return [message for pull in pulls for message in pull.messages]


@pytest.mark.usefixtures("rare_rounds")
async def test_the_whole_ladder_to_the_dead_letters(stage: Stage) -> None:
    listener, clock = Failing(stage.clock), stage.clock
    await stage.join("a", listener)
    await stage.done(stage.producer.send(Message("T", b"poison", tags="A", keys="k")))
    await stage.until(lambda: len(listener.attempts) == 1)
    for times, seconds in enumerate(LADDER_S, 1):
        before = listener.attempts[-1]
        await clock.advance(seconds - 1)
        assert len(listener.attempts) == times
        await stage.until(lambda n=times: len(listener.attempts) > n)  # type: ignore[misc]
        attempt = listener.attempts[-1]
        assert (attempt.times, attempt.topic) == (times, "T")
        assert attempt.at_s - before.at_s == pytest.approx(seconds, abs=0.1)
    await stage.until(lambda: "%DLQ%cg" in stage.broker.topics)
    (message,) = await dead(stage)
    assert (message.body, message.tags, message.keys) == (b"poison", "A", ("k",))
    assert message.properties["RETRY_TOPIC"] == "T"
    assert message.properties["PQ_LAST_ERROR"] == "ValueError: poison"
    async with Admin(stage.namesrv, clock=clock) as admin:
        rows = await stage.done(admin.topic_stats("%RETRY%cg"))
    assert sum(row.count for row in rows) == len(LADDER_S) == 16


@pytest.mark.parametrize(
    ("of_group", "of_consumer", "expected"), [(1, -1, 2), (16, 2, 3), (2, 0, 1)]
)
async def test_the_consumers_maximum_counts_or_else_the_groups(
    stage: Stage, of_group: int, of_consumer: int, expected: int
) -> None:
    async with Admin(stage.namesrv, clock=stage.clock) as admin:
        await stage.done(admin.create_group(GroupConfig(group_name="cg", retry_max_times=of_group)))
    listener = Failing(stage.clock)
    await stage.join("a", listener, max_reconsume_times=of_consumer)
    await stage.send(1)
    await stage.until(lambda: "%DLQ%cg" in stage.broker.topics, 1)
    assert [a.times for a in listener.attempts] == list(range(expected))


async def test_a_listener_gives_a_message_up_or_says_when_it_comes_again(stage: Stage) -> None:
    listener = Failing(stage.clock, RetryLater(delay_level=1))
    consumer = await stage.join("a", listener, max_reconsume_times=1)
    await stage.send(1)
    await stage.until(lambda: len(listener.attempts) == 2)
    first, second = listener.attempts
    assert second.at_s - first.at_s == pytest.approx(1, abs=0.1)
    await stage.until(lambda: "%DLQ%cg" in stage.broker.topics)
    await stage.done(consumer.close())
    never = Failing(stage.clock, RetryLater(delay_level=-1))
    await stage.join("b", never)
    await stage.send(1)
    await stage.until(lambda: never.attempts)
    await stage.clock.advance(1)
    assert len(await dead(stage)) == 2
    assert [a.times for a in never.attempts] == [0]


async def test_what_cannot_be_sent_back_stays_here(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Failing(stage.clock)
    listener.gate.clear()
    await stage.join("a", listener, retry_delay_ms=500)
    await stage.send(1)
    await stage.until(lambda: listener.attempts)
    await stage.done(stage.broker.close())
    listener.gate.set()
    await stage.until(lambda: len(listener.attempts) == 3)
    assert "cannot be sent back now, it is kept here" in caplog.text
    await stage.restart()
    await stage.until(lambda: listener.attempts[-1].times == 2)
    times = [a.times for a in listener.attempts]
    assert times == sorted(times)
