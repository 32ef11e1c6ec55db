"""Order when the broker is killed under the consumers: nothing is skipped, nothing is lost."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.crash.broker_process import BrokerProcess

from pocketmq.client import Admin, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import OperatingError

pytestmark = pytest.mark.crash

TOPIC = "InOrder"
QUEUES = 4
SENT_BEFORE_KILL_MAX = 200
LOCALHOST = "127.0.0.1"


class Handled:
    """The listener of both members: it notes what is skipped or overtaken."""

    def __init__(self) -> None:
        self.bodies: set[bytes] = set()
        self.violations: list[str] = []
        self._next: dict[MessageQueue, int] = defaultdict(int)
        self._at_work: set[MessageQueue] = set()
        self._changed = asyncio.Event()

    async def __call__(self, messages: list[ReceivedMessage]) -> None:
        (message,) = messages
        queue, offset = message.queue, message.queue_offset
        if queue in self._at_work or offset > self._next[queue]:
            self.violations.append(f"{queue}: {offset} after {self._next[queue] - 1}")
        self._at_work.add(queue)
        await asyncio.get_running_loop().run_in_executor(None, int)  # lets others run
        self._at_work.discard(queue)
        self._next[queue] = max(self._next[queue], offset + 1)
        self.bodies.add(message.body)
        self._changed.set()

    async def holds(self, bodies: set[bytes]) -> None:
        """Returns when all of these were handled."""
        while not bodies <= self.bodies:
            self._changed.clear()
            await self._changed.wait()


@pytest.mark.timeout(600)
async def test_order_holds_when_the_broker_is_killed(
    tmp_path: Path, chance: random.Random, rounds: int
) -> None:
    acknowledged: set[bytes] = set()
    handled = Handled()
    async with AsyncExitStack() as brokers, AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(
            NameServer(NamesrvConfig(listen_port=0, bind_address=LOCALHOST))
        )
        settings: dict[str, object] = {"namesrvAddr": namesrv.address}
        broker = await brokers.enter_async_context(BrokerProcess(tmp_path, **settings))
        settings["listenPort"] = int(broker.address.rpartition(":")[2])
        async with Admin(namesrv.address) as admin:
            await admin.create_topic(TOPIC, QUEUES)
        producer = await stack.enter_async_context(Producer("pg", namesrv.address))
        for _ in range(2):
            consumer = PushConsumer(
                "cg",
                namesrv.address,
                listener=handled,
                orderly=True,
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            )
            consumer.subscribe(TOPIC)
            await stack.enter_async_context(consumer)

        async def send(count: int, name: str) -> None:
            for number in range(count):
                body = f"{name}/{number}".encode()
                try:
                    await producer.send(Message(TOPIC, body))
                except OperatingError:
                    continue  # the broker is gone; what it did not acknowledge does not count
                acknowledged.add(body)

        for number in range(rounds):
            await send(chance.randrange(1, SENT_BEFORE_KILL_MAX), f"before {number}")
            sending = asyncio.ensure_future(send(20, f"during {number}"))
            await broker.kill()
            await sending
            broker = await brokers.enter_async_context(BrokerProcess(tmp_path, **settings))
            await send(chance.randrange(1, SENT_BEFORE_KILL_MAX), f"after {number}")
            await handled.holds(acknowledged)
        assert handled.violations == []
