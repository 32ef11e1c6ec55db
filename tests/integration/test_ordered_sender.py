"""Many messages in order, whatever becomes of single requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from pocketmq.client import Message, MessageQueue, Producer, SendFailedError
from pocketmq.client.copying.ordered_sender import ATTEMPTS_MAX, BATCH_MESSAGES_MAX, OrderedSender
from pocketmq.protocol.errors import PocketMQError, UsageError
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import AsyncCluster

QUEUES = [MessageQueue("T", "broker-a", number) for number in (0, 1)]


class Recorded:
    """A sender, and what it told of messages."""

    def __init__(self, cluster: AsyncCluster, producer: Producer, *, goes_on: bool = True) -> None:
        self.cluster, self.goes_on = cluster, goes_on
        self.stored: list[int] = []
        self.failed: dict[int, PocketMQError] = {}
        self.sender: OrderedSender[int] = OrderedSender(producer, self.stored.extend, self.fail)

    def fail(self, token: int, error: PocketMQError) -> bool:
        self.failed[token] = error
        return self.goes_on

    async def put(self, number: int, message: Message | None = None) -> bool:
        message = message or Message("T", str(number))
        return await self.sender.put(message, QUEUES[number % 2], number)

    async def flush(self) -> None:
        """Lets the pauses between attempts pass."""
        flushing = asyncio.ensure_future(self.sender.flush())
        while not flushing.done():
            await self.cluster.clock.advance(seconds=1)
        await flushing

    def bodies(self) -> list[list[int]]:
        stored = self.cluster.stored("T")
        return [[int(m.body) for m in stored if m.queue_id == number] for number in (0, 1)]


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AsyncCluster]:
    async with LocalCluster(topics={"T": 2}) as running:
        yield running


async def test_order_is_kept_within_queues(cluster: AsyncCluster) -> None:
    count = 4 * BATCH_MESSAGES_MAX + 1
    async with cluster.producer() as producer:
        sender = Recorded(cluster, producer)
        for number in range(count):
            assert await sender.put(number)
        await sender.flush()
    assert sorted(sender.stored) == list(range(count))
    assert sender.bodies() == [list(range(0, count, 2)), list(range(1, count, 2))]


async def test_what_is_not_answered_is_sent_again(cluster: AsyncCluster) -> None:
    async with cluster.producer() as producer:
        sender = Recorded(cluster, producer)
        with cluster.faults.close_connection(request="SEND_MESSAGE", times=2) as fault:
            for number in range(20):
                await sender.put(number)
            await sender.flush()
            assert fault.count == 2
    assert (sorted(sender.stored), sender.failed) == (list(range(20)), {})
    assert sender.bodies() == [list(range(0, 20, 2)), list(range(1, 20, 2))]


async def test_the_first_failure_ends_everything_if_it_is_told_to(cluster: AsyncCluster) -> None:
    async with cluster.producer() as producer:
        sender = Recorded(cluster, producer, goes_on=False)
        with cluster.faults.close_connection(request="SEND_MESSAGE", queue=0) as fault:
            assert await sender.put(0)
            await sender.flush()
            assert fault.count == ATTEMPTS_MAX
        assert isinstance(sender.failed[0], SendFailedError)
        assert not await sender.put(1)
        await sender.sender.close()
    assert (sender.stored, sender.bodies()) == ([], [[], []])


async def test_a_message_that_cannot_be_sent_takes_no_other_with_it(cluster: AsyncCluster) -> None:
    async with cluster.producer() as producer:
        sender = Recorded(cluster, producer)
        for number in range(40):
            is_bad = number == 20
            properties = {"a\x01": "b"} if is_bad else {}
            await sender.put(number, Message("T", str(number), properties=properties))
        await sender.flush()
    assert sender.failed.keys() == {20}
    assert isinstance(sender.failed[20], UsageError)
    assert sender.bodies() == [[n for n in range(0, 40, 2) if n != 20], list(range(1, 40, 2))]


async def test_what_waits_goes_by_itself(cluster: AsyncCluster) -> None:
    async with cluster.producer() as producer:
        sender = Recorded(cluster, producer)
        for number in range(6):
            delay_ms = 60_000 if number == 2 else 0
            await sender.put(number, Message("T", str(number), delay_ms=delay_ms))
        await sender.flush()
        assert sender.bodies() == [[0, 4], [1, 3, 5]]
        await cluster.clock.advance(minutes=1)
    assert sender.bodies() == [[0, 4, 2], [1, 3, 5]]
