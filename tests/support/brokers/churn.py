"""Members of groups that come, go and crash while messages flow, and what must hold."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    Admin,
    ClientInstance,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import OperatingError
from pocketmq.testing.clock import VirtualClock

LOCALHOST = "127.0.0.1"
TOPIC = "Churn"
QUEUES = 3
MEMBERS_MAX = 4
HANDLING_S_MAX = 4.0
"""Less than a lock lives, so that no two members may ever have the same queue at work."""

DRAIN_S_MAX = 3_600
"""The ladder of retries is climbed by messages that fail several times."""


class Ledger:
    """What a group was given, and what it handled.

    Args:
        in_order: the group consumes in order, which is checked at each message.
    """

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self.handled: set[bytes] = set()
        self.given_count = 0
        self._handled_offsets: dict[MessageQueue, set[int]] = defaultdict(set)
        self._next: dict[MessageQueue, int] = defaultdict(int)
        self._at_work: dict[MessageQueue, str] = {}
        self.violations: list[str] = []

    def begins(self, member: str, message: ReceivedMessage) -> None:
        """A member's listener was given a message."""
        self.given_count += 1
        queue, offset = message.queue, message.queue_offset
        if not self._in_order:
            return
        if queue in self._at_work:
            self.violations.append(f"{queue}: {member} overtakes {self._at_work[queue]}")
        if offset > self._next[queue]:
            self.violations.append(f"{queue}: {member} skips from {self._next[queue]} to {offset}")
        self._at_work[queue] = member

    def ends(self, message: ReceivedMessage, *, is_handled: bool) -> None:
        """The listener is done with it."""
        queue, offsets = message.queue, self._handled_offsets[message.queue]
        self._at_work.pop(queue, None)
        if is_handled:
            self.handled.add(message.body)
            offsets.add(message.queue_offset)
            while self._next[queue] in offsets:
                self._next[queue] += 1


class ChurnMember:
    """One consumer in a process of its own, so to speak: it can crash."""

    def __init__(
        self,
        name: str,
        group: str,
        ledger: Ledger,
        namesrv: str,
        clock: VirtualClock,
        chance: random.Random,
        *,
        orderly: bool,
    ) -> None:
        self.name, self._ledger, self._clock, self._chance = name, ledger, clock, chance
        self._instance = ClientInstance(namesrv, clock=clock, random=chance, instance_name=name)
        self._consumer = PushConsumer(
            group,
            instance=self._instance,
            listener=self._listen,
            orderly=orderly,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            concurrency=chance.choice((1, 2, 5)),
            max_reconsume_times=-1,
            close_timeout_ms=round(HANDLING_S_MAX * 1000),
        )
        self._consumer.subscribe(TOPIC)

    async def start(self) -> None:
        await self._instance.start()
        await self._consumer.start()

    async def _listen(self, messages: list[ReceivedMessage]) -> None:
        (message,) = messages
        chance, is_handled = self._chance, False
        self._ledger.begins(self.name, message)
        try:
            if chance.random() < 0.2:
                await self._clock.sleep(chance.uniform(0.01, HANDLING_S_MAX))
            if chance.random() < 0.05:
                raise ValueError("it fails now and then")
            is_handled = True
        finally:
            self._ledger.ends(message, is_handled=is_handled)

    async def leave(self) -> None:
        """Says goodbye."""
        await self._consumer.close()
        await self._instance.close()

    async def crash(self) -> None:
        """Is gone without a word: no offset is stored, no lock released."""
        await self._instance.close()
        await self._consumer.close()


class Churn:
    """A cluster of two brokers under a virtual clock, a producer and two groups of members.

    ``async with Churn(...) as churn:``, then `step` as often as you like, and `settle`.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder, self._chance = folder, chance
        self.clock = VirtualClock()
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._members: dict[str, list[ChurnMember]] = {"together": [], "in-order": []}
        self.ledgers = {name: Ledger(in_order=name == "in-order") for name in self._members}
        self.acknowledged: set[bytes] = set()
        self._count = 0
        self._is_producing = True
        self.log: list[str] = []

    async def __aenter__(self) -> Churn:
        namesrv = NameServer(NamesrvConfig(listen_port=0, bind_address=LOCALHOST), self.clock)
        await self._stack.enter_async_context(namesrv)
        self._namesrv = namesrv.address
        self._brokers = [await self._broker(self._config(name)) for name in ("a", "b")]
        async with Admin(self._namesrv, clock=self.clock) as admin:
            await admin.create_topic(TOPIC, QUEUES)
        self._tasks.append(asyncio.ensure_future(self._produce()))
        for group in self._members:
            await self._join(group)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_producing = False
        await self._finish(*self._tasks)
        for members in self._members.values():
            for member in members:
                await self._finish(asyncio.ensure_future(member.leave()))
        for broker in self._brokers:
            await self._finish(asyncio.ensure_future(broker.close()))
        await self._stack.aclose()

    def _config(self, name: str, port: int = 0) -> BrokerConfig:
        return BrokerConfig(
            broker_name=name,
            listen_port=port,
            bind_address=LOCALHOST,
            namesrv_addr=self._namesrv,
            store_path_root_dir=str(self._folder / name),
            disk_space_free_min=0,
        )

    async def _broker(self, config: BrokerConfig) -> Broker:
        return await Broker(config, self.clock, seed=self._chance.getrandbits(32)).__aenter__()

    async def _finish(self, *tasks: asyncio.Task[None]) -> None:
        """Moves time on until something that takes time is done."""
        while not all(task.done() for task in tasks):
            await self.clock.advance(0.1)
        for task in tasks:
            task.result()

    async def _produce(self) -> None:
        chance = self._chance
        async with Producer("pg", self._namesrv, clock=self.clock, random=chance) as producer:
            number = 0
            while self._is_producing:
                body = b"%d" % number
                number += 1
                try:
                    await producer.send(Message(TOPIC, body))
                except OperatingError:
                    pass  # it may be stored or not: nobody was promised anything
                else:
                    self.acknowledged.add(body)
                await self.clock.sleep(chance.choice((0.001, 0.01, 0.1)))

    # -- what happens -------------------------------------------------------------------------

    async def step(self) -> None:
        """Something happens, and some time passes."""
        group = self._chance.choice(sorted(self._members))
        members = self._members[group]
        actions = [self._join] if len(members) < MEMBERS_MAX else []
        if len(members) > 1:
            actions += [self._leave, self._crash]
        await self._chance.choice(actions)(group)
        if self._chance.random() < 0.15:
            await self._restart()
        await self.clock.advance(self._chance.uniform(0.1, 4))

    async def _join(self, group: str) -> None:
        self._count += 1
        member = ChurnMember(
            f"{group}-{self._count}",
            group,
            self.ledgers[group],
            self._namesrv,
            self.clock,
            self._chance,
            orderly=group == "in-order",
        )
        self.log.append(f"{member.name} joins")
        await self._finish(asyncio.ensure_future(member.start()))
        self._members[group].append(member)

    async def _leave(self, group: str) -> None:
        member = self._one_of(group)
        self.log.append(f"{member.name} leaves")
        await self._finish(asyncio.ensure_future(member.leave()))

    async def _crash(self, group: str) -> None:
        member = self._one_of(group)
        self.log.append(f"{member.name} crashes")
        await self._finish(asyncio.ensure_future(member.crash()))

    def _one_of(self, group: str) -> ChurnMember:
        members = self._members[group]
        return members.pop(self._chance.randrange(len(members)))

    async def _restart(self) -> None:
        index = self._chance.randrange(len(self._brokers))
        broker = self._brokers[index]
        self.log.append(f"broker {broker.config.broker_name} restarts")
        port = int(broker.address.rpartition(":")[2])
        await self._finish(asyncio.ensure_future(broker.close()))
        await self.clock.advance(self._chance.uniform(0, 5))
        config = msgspec.structs.replace(broker.config, listen_port=port)
        self._brokers[index] = await self._broker(config)

    # -- what must hold -----------------------------------------------------------------------

    async def settle(self) -> None:
        """Ends the production and waits until every acknowledged message was handled."""
        self._is_producing = False
        await self._finish(*self._tasks)
        started_s = self.clock.monotonic()
        while any(self.missing(group) for group in self._members):
            assert self.clock.monotonic() - started_s < DRAIN_S_MAX, self.report()
            await self.clock.advance(1)

    def missing(self, group: str) -> set[bytes]:
        """What a group was promised and did not handle yet."""
        return self.acknowledged - self.ledgers[group].handled

    def summary(self) -> str:
        """How much there was of everything."""
        given = {name: ledger.given_count for name, ledger in self.ledgers.items()}
        return (
            f"{len(self.acknowledged)} messages, given {given}, within "
            f"{self.clock.monotonic():.0f} s: {', '.join(self.log)}"
        )

    def report(self) -> str:
        """What happened, for whoever has to understand it."""
        lost = {g: sorted(self.missing(g), key=int)[:10] for g in self._members}
        violations = self.ledgers["in-order"].violations
        return "\n".join([*self.log, f"missing: {lost}", *violations[:20]])
