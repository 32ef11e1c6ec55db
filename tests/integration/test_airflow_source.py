"""Messages for Airflow, in virtual time and without Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.member_parts import Stage

from pocketmq.airflow.source import REDELIVERIES_MAX, MessageSource
from pocketmq.airflow.target import Target
from pocketmq.client import Admin, Message, PullConsumer, ReceivedMessage, SimpleConsumer
from pocketmq.protocol.errors import ConfigError, IllegalNameError
from pocketmq.protocol.messages import properties as props
from pocketmq.testing.clock import VirtualClock

INVISIBLE_MS = 10_000
QUIET_S = 30


class Reader:
    """Reads a source one by one."""

    def __init__(self, stage: Stage, **arguments: Any) -> None:
        arguments = {
            "topic": "T", "group": "cg", "expression": "*", "held_max": 4,
            "invisible_ms": INVISIBLE_MS, **arguments,
        }  # fmt: skip
        target = Target([stage.namesrv], {})
        self.stage, self.clock = stage, stage.clock
        self.source = MessageSource(target, clock=stage.clock, **arguments)

    async def __aenter__(self) -> Reader:
        await self.stage.done(self.source.start())
        self._messages = self.source.messages()
        self._next: asyncio.Task[ReceivedMessage] | None = None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()
        await self.stage.done(self.source.close())

    async def next(self) -> ReceivedMessage:
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._messages))
        await self.stage.until(self._next.done, 0.2)
        read, self._next = self._next, None
        return read.result()

    async def assert_nothing_comes(self) -> None:
        self._next = self._next or asyncio.ensure_future(anext(self._messages))
        for _ in range(QUIET_S):
            await self.clock.advance(1.0)
        assert not self._next.done()

    async def leave(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await self.stage.done(asyncio.wait([self._next]))
            self._next = None


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock) as stage:
        yield stage


async def test_what_is_acknowledged_does_not_come_again(stage: Stage) -> None:
    await stage.send(3)
    async with Reader(stage) as reader:
        for offset in range(3):
            message = await reader.next()
            assert (message.queue_offset, message.reconsume_times) == (offset, 0)
            reader.source.acknowledge(message)
        await reader.assert_nothing_comes()
    async with Reader(stage) as other:
        await other.assert_nothing_comes()


async def test_what_is_held_is_for_nobody_else_until_the_source_is_closed(stage: Stage) -> None:
    await stage.send(1)
    async with Reader(stage) as other:
        async with Reader(stage) as reader:
            await reader.next()
            await other.assert_nothing_comes()
        assert (await other.next()).reconsume_times == 0


async def test_what_a_killed_process_had_comes_again(stage: Stage) -> None:
    await stage.send(1)
    async with Reader(stage) as killed:
        await killed.next()
        await stage.done(killed.source._instance.close())
        async with Reader(stage) as other:
            assert (await other.next()).reconsume_times == 1


async def test_no_more_is_held_than_wanted(stage: Stage) -> None:
    await stage.send(5)
    async with Reader(stage, held_max=2) as reader, Reader(stage) as other:
        first, _ = await reader.next(), await reader.next()
        await reader.assert_nothing_comes()
        await reader.leave()
        assert [(await other.next()).queue_offset for _ in range(3)] == [2, 3, 4]
        await stage.send(1)
        reader.source.acknowledge(first)
        reader._messages = reader.source.messages()
        await other.leave()
        assert (await reader.next()).queue_offset == 5


async def test_what_is_refused_comes_again_and_is_a_dead_letter_in_the_end(stage: Stage) -> None:
    await stage.send(1)
    async with Reader(stage) as reader:
        for times in range(REDELIVERIES_MAX + 1):
            message = await reader.next()
            assert message.reconsume_times == times
            await stage.done(reader.source.refuse(message, "nobody wants this"))
        await reader.assert_nothing_comes()
    assert await letters(stage) == ["RejectedError: nobody wants this"]


async def test_what_kills_its_processes_is_a_dead_letter_in_the_end(stage: Stage) -> None:
    await stage.send(1)
    async with SimpleConsumer("cg", stage.namesrv, clock=stage.clock) as killed:
        killed.subscribe("T")
        for _ in range(REDELIVERIES_MAX + 1):
            (message,) = await stage.done(killed.receive())
            await stage.done(killed.change_invisible_duration(message, 0))
    async with Reader(stage) as reader:
        await reader.assert_nothing_comes()
    times = REDELIVERIES_MAX + 1
    assert await letters(stage) == [
        f"RejectedError: delivered {times} times and never acknowledged"
    ]


async def letters(stage: Stage) -> list[str]:
    """The errors of the group's dead letters."""
    async with PullConsumer("looker", stage.namesrv, clock=stage.clock) as puller:
        (queue,) = await stage.done(puller.queues("%DLQ%cg"))
        pull = await stage.done(puller.pull(queue, 0, hold_ms=5_000))
    return [message.properties[props.LAST_ERROR] for message in pull.messages]


async def test_a_topic_may_come_later_and_a_tag_chooses(stage: Stage) -> None:
    async with Reader(stage, topic="Later", expression="new") as reader:
        await reader.assert_nothing_comes()
        async with Admin(stage.namesrv, clock=stage.clock) as admin:
            await stage.done(admin.create_topic("Later", 1))
        for tag in ("old", "new"):
            await stage.done(stage.producer.send(Message("Later", tag, tags=tag)))
        message = await reader.next()
        assert message.body == b"new"
        reader.source.acknowledge(message)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": "a topic"}, IllegalNameError),
        ({"group": ""}, IllegalNameError),
        ({"held_max": 0}, ConfigError),
        ({"invisible_ms": 5}, ConfigError),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(
    stage: Stage, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Reader(stage, **arguments)
