"""Order over the end of members and brokers, in virtual time on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest_asyncio
from integration.broker_parts import advance_until

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    Admin,
    ClientInstance,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.testing.clock import VirtualClock

LOCALHOST = "127.0.0.1"
T = TypeVar("T")


class Stage:
    """A name server, a broker with a topic of one queue, and members of one group."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        self._folder, self.clock = folder, clock
        self.begun: list[tuple[str, int]] = []
        self.gates: dict[str, asyncio.Event] = {}
        self._members: list[tuple[PushConsumer, ClientInstance]] = []

    async def __aenter__(self) -> Stage:
        config = NamesrvConfig(listen_port=0, bind_address=LOCALHOST)
        self._namesrv = await NameServer(config, self.clock).__aenter__()
        self._config = BrokerConfig(
            listen_port=0,
            bind_address=LOCALHOST,
            namesrv_addr=self._namesrv.address,
            store_path_root_dir=str(self._folder),
            disk_space_free_min=0,
        )
        self.broker = await Broker(self._config, self.clock).__aenter__()
        async with Admin(self._namesrv.address, clock=self.clock) as admin:
            await admin.create_topic("T", 1)
        self.producer = await Producer("pg", self._namesrv.address, clock=self.clock).__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for gate in self.gates.values():
            gate.set()
        for consumer, instance in self._members:
            await self.done(consumer.close())
            await self.done(instance.close())
        await self.done(self.producer.close())
        await self.done(self.broker.close())
        await self.done(self._namesrv.close())

    async def done(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Moves time on until something is done."""
        task = asyncio.ensure_future(coroutine)
        await advance_until(self.clock, task.done, 0.05)
        return task.result()

    async def until(self, condition: Callable[[], object], step_s: float = 0.05) -> float:
        """Moves time on until something has come true; the seconds that took."""
        started_s = self.clock.monotonic()
        await advance_until(self.clock, condition, step_s)
        return self.clock.monotonic() - started_s

    async def send(self, count: int) -> None:
        """Sends so many messages."""
        for _ in range(count):
            await self.done(self.producer.send(Message("T", b"x")))

    async def join(self, name: str, *, is_held: bool = False, **settings: Any) -> PushConsumer:
        """A new member, which may be held up at each message; names sort as members do."""
        gate = self.gates[name] = asyncio.Event()
        if not is_held:
            gate.set()

        async def listener(messages: list[ReceivedMessage]) -> None:
            self.begun.append((name, messages[0].queue_offset))
            await gate.wait()

        instance = ClientInstance(self._namesrv.address, clock=self.clock, instance_name=name)
        await instance.start()
        settings = {"orderly": True, "close_timeout_ms": 1} | settings
        consumer = PushConsumer(
            "cg",
            instance=instance,
            listener=listener,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            **settings,
        )
        consumer.subscribe("T")
        self._members.append((consumer, instance))
        await self.done(consumer.start())
        return consumer

    async def crash(self, consumer: PushConsumer) -> None:
        """A member is gone without a word."""
        await self.done(consumer.instance.close())
        await self.done(consumer.close())

    async def restart(self) -> None:
        """The broker goes away and comes back with the same address."""
        port = int(self.broker.address.rpartition(":")[2])
        await self.done(self.broker.close())
        config = msgspec.structs.replace(self._config, listen_port=port)
        self.broker = await Broker(config, self.clock).__aenter__()


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock) as stage:
        yield stage


async def test_a_crashed_members_queue_is_anothers_after_a_minute(stage: Stage) -> None:
    """The broker cannot know whether it still works."""
    await stage.send(3)
    first = await stage.join("a", is_held=True)
    await stage.until(lambda: stage.begun == [("a", 0)])
    second = await stage.join("b")
    await stage.crash(first)
    took_s = await stage.until(lambda: second.queues, 0.25)
    assert 55 < took_s <= 62
    await stage.until(lambda: len(stage.begun) == 4)
    assert stage.begun[1:] == [("b", 0), ("b", 1), ("b", 2)]


async def test_a_member_that_leaves_hands_over_at_once(stage: Stage) -> None:
    await stage.send(3)
    first = await stage.join("a")
    await stage.until(lambda: len(stage.begun) == 3)
    second = await stage.join("b")
    await stage.done(first.close())
    assert await stage.until(lambda: second.queues) < 1
    await stage.send(1)
    await stage.until(lambda: len(stage.begun) == 4)
    assert stage.begun[3] == ("b", 3)


async def test_a_member_that_is_asked_to_share_ends_its_batch_first(stage: Stage) -> None:
    """The newcomer is the first by name, so that the one queue is its."""
    await stage.send(2)
    first = await stage.join("b", is_held=True)
    await stage.until(lambda: stage.begun == [("b", 0)])
    second = await stage.join("a")
    await stage.until(lambda: not first.queues)
    await stage.clock.advance(20)
    assert stage.begun == [("b", 0)]
    stage.gates["b"].set()
    assert await stage.until(lambda: len(stage.begun) == 2) < 1
    assert stage.begun[1] == ("a", 1)
    assert second.queues


async def test_a_batch_that_hangs_holds_its_queue_for_a_minute_only(stage: Stage) -> None:
    await stage.send(2)
    first = await stage.join("b", is_held=True)
    await stage.until(lambda: stage.begun == [("b", 0)])
    await stage.join("a")
    await stage.until(lambda: not first.queues)
    assert 30 < await stage.until(lambda: len(stage.begun) == 3, 0.25) < 62
    assert stage.begun[1:] == [("a", 0), ("a", 1)]


async def test_a_restarted_broker_lets_nobody_overtake(stage: Stage) -> None:
    """Who comes back first is told that he is alone; the queue is the other's all the same."""
    await stage.send(2)
    first = await stage.join("b", is_held=True)
    await stage.until(lambda: stage.begun == [("b", 0)])
    await stage.restart()
    second = await stage.join("c")
    await stage.clock.advance(25)
    assert stage.begun == [("b", 0)]
    assert (len(first.queues), second.queues) == (1, [])
    stage.gates["b"].set()
    await stage.until(lambda: len(stage.begun) == 2)
    assert stage.begun[1] == ("b", 1)


async def test_a_newcomers_first_message_comes_within_a_second(stage: Stage) -> None:
    """Not at the next tick of the 20 s, whether it is alone or not, in order or not."""
    for number, orderly in enumerate((False, True)):
        await stage.join(f"y{number}", orderly=orderly)
        await stage.send(1)
        before = len(stage.begun)
        assert await stage.until(lambda n=before: len(stage.begun) >= n) < 1  # type: ignore[misc]
        newcomer = await stage.join(f"a{number}", orderly=orderly)
        waiting_s = await stage.until(lambda c=newcomer: c.queues)  # type: ignore[misc]
        await stage.send(1)
        name = f"a{number}"
        waiting_s += await stage.until(
            lambda n=name: any(member == n for member, _ in stage.begun)  # type: ignore[misc]
        )
        assert waiting_s < 1
        for consumer, _ in stage._members[-2:]:
            await stage.done(consumer.close())
