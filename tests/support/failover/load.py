"""This project's client as load on a broker set, and readers that ask every member all the time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from support.failover.contents import content_of, new_body
from support.failover.history import History, OffsetCommit, OffsetRead, Read, Send

from pocketmq.client import Message, Producer, PushConsumer, ReceivedMessage
from pocketmq.client.hooks import SendHooks, SendMessageContext
from pocketmq.client.results import SendResult, SendStatus
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

TOPIC, BROKER, QUEUES = "Orders", "a", 4
GROUP = "python-load"
COMMITTING_GROUP = "TOOLS_CONSUMER"  # there from the start
CALL_TIMEOUT_MS = 1000
PAUSE_S, PAUSE_AFTER_FAILURE_S = 0.02, 0.2
READ_PAUSE_S = 0.02


class Load:
    """Producers, a push consumer, readers of each member, and a group that commits offsets.

    Args:
        namesrv: of the cluster.
        members: addresses by the names of members.
        history: gets what they do and see.
        seed: decides their choices.
        senders: how many send.
    """

    def __init__(
        self, namesrv: str, members: Mapping[str, str], history: History, seed: int, senders: int
    ) -> None:
        self._namesrv, self._members, self._history = namesrv, members, history
        self._chance = random.Random(seed)
        self._senders = senders
        self._clock = SystemClock()
        self._is_over = False
        self._ends = dict.fromkeys(range(QUEUES), 0)
        self._sending: list[asyncio.Task[None]] = []
        self._watching: list[asyncio.Task[None]] = []
        self._consumed = history.consumed.setdefault(GROUP, set())

    async def __aenter__(self) -> Load:
        self._consumer = PushConsumer(
            GROUP, self._namesrv, listener=self._consume, concurrency=1,
            poll_namesrv_interval_ms=5_000, rebalance_interval_ms=5_000,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        )  # fmt: skip
        self._consumer.subscribe(TOPIC)
        await self._consumer.start()
        for number in range(self._senders):
            chance = random.Random(self._chance.random())
            self._sending.append(
                asyncio.create_task(self._send(f"python-{number}", chance, number % 2 == 0))
            )
        for name, address in self._members.items():
            self._watching.append(asyncio.create_task(self._read(name, address)))
        self._watching.append(asyncio.create_task(self._commit()))
        self._watching.append(asyncio.create_task(self._ask_offsets()))
        return self

    def look(self) -> None:
        """Raises the error of a task that has ended with one."""
        for task in (*self._sending, *self._watching):
            if task.done():
                task.result()

    async def stop_sending(self) -> None:
        """Returns when all sends have ended."""
        self._is_over = True
        await asyncio.gather(*self._sending)

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._sending)
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self._consumer.close()

    # -- sending ------------------------------------------------------------------------------

    async def _send(self, client: str, chance: random.Random, is_free: bool) -> None:
        attempts = 0

        def count(_: SendMessageContext) -> None:
            nonlocal attempts
            attempts += 1

        producer = Producer(
            client, self._namesrv, hooks=SendHooks(before=[count]),
            random=random.Random(chance.random()),
        )  # fmt: skip
        monotonic, number = self._clock.monotonic, 0
        async with producer:
            while not self._is_over:
                body = new_body(client, number, chance)
                number += 1
                queue = None if is_free else MessageQueue(TOPIC, BROKER, chance.randrange(QUEUES))
                attempts, begun_s = 0, monotonic()
                result: SendResult | None = None
                try:
                    result = await producer.send(Message(TOPIC, body), queue=queue)
                except PocketMQError:
                    await self._clock.sleep(chance.random() * PAUSE_AFTER_FAILURE_S)
                place, is_ok = None, False
                if result is not None:
                    place = queue_id, offset = result.queue.queue_id, result.queue_offset
                    is_ok = result.status is SendStatus.SEND_OK
                    if is_ok:
                        self._ends[queue_id] = max(self._ends[queue_id], offset + 1)
                self._history.sends.append(
                    Send(client, content_of(body), begun_s, monotonic(), attempts, place, is_ok)
                )
                await self._clock.sleep(chance.random() * PAUSE_S)

    # -- reading ------------------------------------------------------------------------------

    async def _consume(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            content = content_of(message.body)
            self._consumed.add(content)
            if not message.reconsume_times:
                place = (message.queue_id, message.queue_offset)
                self._history.reads.append(Read(GROUP, place, content))

    async def _read(self, name: str, address: str) -> None:
        """Reads the ends of all queues at one member, whether it leads or not."""
        offsets = dict.fromkeys(range(QUEUES), 0)
        pool = ConnectionPool(self._clock, connect_timeout_ms=CALL_TIMEOUT_MS)
        try:
            while True:
                for queue_id in range(QUEUES):
                    try:
                        answer = await pool.call(
                            address, _pull(queue_id, offsets[queue_id]), CALL_TIMEOUT_MS
                        )
                    except PocketMQError:
                        pool.drop(address, "it does not answer")
                        continue
                    if answer.code == ResponseCode.SUCCESS:
                        for message in decode_records(answer.body):
                            place = (queue_id, message.queue_offset)
                            self._history.reads.append(Read(name, place, content_of(message.body)))
                        offsets[queue_id] = answer.read(PullMessageResponse).next_begin_offset
                await self._clock.sleep(READ_PAUSE_S)
        finally:
            await pool.close()

    # -- offsets ------------------------------------------------------------------------------

    async def _commit(self) -> None:
        """Commits how far a queue goes, again and again, at each member until one takes it.

        A broker that starts after a crash takes no offset behind the end of its queue.
        """
        chance, monotonic = random.Random(self._chance.random()), self._clock.monotonic
        addresses = list(self._members.values())
        pool = ConnectionPool(self._clock, connect_timeout_ms=CALL_TIMEOUT_MS)
        at = 0
        try:
            while True:
                queue_id, begun_s = chance.randrange(QUEUES), monotonic()
                offset = self._ends[queue_id]
                request = UpdateConsumerOffsetRequest(
                    consumer_group=COMMITTING_GROUP, topic=TOPIC, queue_id=queue_id,
                    commit_offset=offset,
                )  # fmt: skip
                try:
                    await pool.ask(addresses[at], request, CALL_TIMEOUT_MS)
                except PocketMQError:
                    at = (at + 1) % len(addresses)
                else:
                    self._history.commits.append(
                        OffsetCommit(queue_id, offset, begun_s, monotonic())
                    )
                await self._clock.sleep(READ_PAUSE_S)
        finally:
            await pool.close()

    async def _ask_offsets(self) -> None:
        """Asks for the committed offsets, at every member in turn."""
        chance, monotonic = random.Random(self._chance.random()), self._clock.monotonic
        addresses = list(self._members.values())
        pool = ConnectionPool(self._clock, connect_timeout_ms=CALL_TIMEOUT_MS)
        try:
            while True:
                queue_id, begun_s = chance.randrange(QUEUES), monotonic()
                request = QueryConsumerOffsetRequest(
                    consumer_group=COMMITTING_GROUP, topic=TOPIC, queue_id=queue_id
                )
                try:
                    answer = await pool.ask_for(
                        chance.choice(addresses), request, OffsetResponse, CALL_TIMEOUT_MS
                    )
                except PocketMQError:
                    pass
                else:
                    self._history.offset_reads.append(
                        OffsetRead(queue_id, answer.offset, begun_s, monotonic())
                    )
                await self._clock.sleep(READ_PAUSE_S)
        finally:
            await pool.close()


def _pull(queue_id: int, offset: int) -> PullMessageRequest:
    return PullMessageRequest(
        consumer_group=COMMITTING_GROUP, topic=TOPIC, queue_id=queue_id, queue_offset=offset,
        sys_flag=PULL_SUBSCRIPTION, subscription="*",
    )  # fmt: skip
