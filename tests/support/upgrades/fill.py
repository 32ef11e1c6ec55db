"""Fills a cluster with all that a data directory can hold, and writes down what it should hold.

    python fill.py NAMESRV EXPECTED.json everything|popped|last|nothing

Any release runs it, with its own packages: `everything` and `last`, one more message, use what the
client had in 0.1.0; `popped` needs 0.2.0.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from pocketmq.client import (
    Admin,
    LocalTransactionState,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    TransactionProducer,
    by_hash,
)
from pocketmq.protocol.bodies.clients import GroupConfig

HOUR_MS = 3_600_000
LAST_LEVEL = 18
"""The level of two hours."""

TOPICS = {
    "Orders": 4,
    "Debts": 1,
    "Later": 2,
    "Placed": 1,
}
READ = ["Orders", "Debts", "Placed", "%RETRY%billing", "%DLQ%billing"]


class Decisions:
    """Commits, rolls back or leaves open, as each transaction says."""

    async def execute_local_transaction(
        self, message: Message, arg: LocalTransactionState
    ) -> LocalTransactionState:
        """The end of a new transaction."""
        return arg

    async def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        """Nothing is known of it yet."""
        return LocalTransactionState.UNKNOWN


async def send_all(namesrv: str) -> None:
    """Sends messages of all kinds."""
    async with Producer("shop", namesrv) as producer:
        for queue_id in range(TOPICS["Orders"]):
            queue = MessageQueue("Orders", "broker-a", queue_id)
            await producer.send(Message("Orders", b"the first one"), queue=queue)
        for number in range(12):
            await producer.send(
                Message(
                    "Orders", f"order {number} · ".encode() * (number + 1),
                    tags=("red", "blue")[number % 2], keys=f"key{number}",
                    sharding_key=f"customer {number % 3}", properties={"größe": f"{number} m"},
                ),
                selector=by_hash,
            )  # fmt: skip
        await producer.send_batch([Message("Orders", b"of a batch", tags="batch")] * 3)
        await producer.send(Message("Orders", b"compressible " * 2000, tags="large"))
        for number in range(3):
            await producer.send(Message("Later", b"level %d" % number, delay_level=LAST_LEVEL))
        in_an_hour = int(time.time() * 1000) + HOUR_MS
        for number in range(3):
            message = Message("Later", b"timer %d" % number, deliver_at_ms=in_an_hour + number)
            await producer.send(message)
        recalled = await producer.send(Message("Later", b"called back", deliver_at_ms=in_an_hour))
        assert recalled.recall_handle
        await producer.recall("Later", recalled.recall_handle)
    async with TransactionProducer("payers", namesrv, listener=Decisions()) as payers:
        for state in (
            LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK,
            LocalTransactionState.UNKNOWN,
        ):  # fmt: skip
            message = Message("Placed", state.name.encode(), keys=state.name)
            await payers.send_in_transaction(message, state)


async def fail(namesrv: str) -> None:
    """Sends a message to the dead letters, one to a retry in two hours, and one comes again."""
    handled = asyncio.Event()
    left = {b"dead", b"in two hours", b"again", b"fine"}

    async def bill(messages: list[ReceivedMessage]) -> RetryLater | None:
        (message,) = messages
        if message.body == b"again" and not message.reconsume_times:
            return RetryLater(delay_level=1)
        left.discard(message.body)
        if not left:
            handled.set()
        levels = {b"dead": -1, b"in two hours": LAST_LEVEL}
        level = levels.get(message.body)
        return None if level is None else RetryLater(delay_level=level)

    consumer = PushConsumer(
        "billing", namesrv, listener=bill, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.subscribe("Debts")
    async with consumer, Producer("shop", namesrv) as producer:
        for body in sorted(left):
            await producer.send(Message("Debts", body))
        await handled.wait()


async def contents(namesrv: str, topics: list[str] = READ) -> dict[str, Any]:
    """All messages of topics, by topic and queue; by default of those where nothing is delayed."""
    found: dict[str, Any] = {}
    async with PullConsumer("readers", namesrv) as consumer:
        for topic in topics:
            for queue in await consumer.queues(topic):
                offset, messages = await consumer.min_offset(queue), []
                while True:
                    result = await consumer.pull(queue, offset)
                    messages += [
                        [m.queue_offset, m.body.decode(), m.properties] for m in result.messages
                    ]
                    offset = result.next_offset
                    if result.status is PullStatus.NO_NEW_MESSAGE:
                        break
                found[f"{topic} {queue.queue_id}"] = messages
    return found


async def pop(namesrv: str) -> None:
    """Pops two messages: one is acknowledged, the other one is in flight for two hours."""
    from pocketmq.client import SimpleConsumer

    async with Admin(namesrv) as admin, Producer("shop", namesrv) as producer:
        await admin.create_topic("Popped", 1)
        for body in (b"acknowledged", b"in flight"):
            await producer.send(Message("Popped", body))
    consumer = SimpleConsumer("poppers", namesrv)
    consumer.subscribe("Popped")
    async with consumer:
        popped: list[ReceivedMessage] = []
        while len(popped) < 2:
            popped += await consumer.receive(2, 2 * HOUR_MS)
        (done,) = (message for message in popped if message.body == b"acknowledged")
        await consumer.ack(done)


async def offsets(namesrv: str) -> dict[str, int | None]:
    """The committed offsets of the groups, by group, topic and queue."""
    found: dict[str, int | None] = {}
    async with Admin(namesrv) as admin:
        for group, topic in (("auditors", "Orders"), ("billing", "Debts")):
            for queue_id in range(TOPICS[topic]):
                queue = MessageQueue(topic, "broker-a", queue_id)
                found[f"{group} {topic} {queue_id}"] = await admin.committed_offset(group, queue)
    return found


async def send_last(namesrv: str) -> None:
    """Sends one more message to a queue that holds some."""
    async with Producer("shop", namesrv) as producer:
        queue = MessageQueue("Orders", "broker-a", 0)
        await producer.send(Message("Orders", b"the last one"), queue=queue)


async def everything(namesrv: str) -> None:
    """Makes topics and groups, sends and consumes."""
    async with Admin(namesrv) as admin:
        for name, count in TOPICS.items():
            await admin.create_topic(name, count)
    await send_all(namesrv)
    await fail(namesrv)
    async with Admin(namesrv) as admin:
        await admin.create_group(GroupConfig(group_name="auditors", retry_max_times=3))
        for queue_id in range(TOPICS["Orders"]):
            await admin.commit_offset("auditors", MessageQueue("Orders", "broker-a", queue_id), 1)


async def nothing(namesrv: str) -> None:
    """Only looks at what is there."""


WAYS = {"everything": everything, "popped": pop, "last": send_last, "nothing": nothing}


async def fill(namesrv: str, way: str) -> dict[str, Any]:
    """Fills a cluster in a way; returns what there should be then."""
    await WAYS[way](namesrv)
    return {
        "recorded_ms": int(time.time() * 1000),
        "offsets": await offsets(namesrv),
        "contents": await contents(namesrv),
    }


def read(expected: Path) -> dict[str, Any]:
    """What a fill wrote down."""
    read: dict[str, Any] = json.loads(expected.read_text(encoding="utf-8"))
    return read


if __name__ == "__main__":
    expected = asyncio.run(fill(sys.argv[1], sys.argv[3]))
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    Path(sys.argv[2]).write_text(f"{text}\n", encoding="utf-8")
