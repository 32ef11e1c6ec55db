"""`kill -9` of a broker among pops: what was acknowledged does not come again, the rest does."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from support.crash.broker_process import BrokerProcess

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.receipts import (
    Origin,
    QueueOrigin,
    ReceiptHandle,
    decode_start_offsets,
)
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.popping import (
    ALL_QUEUES,
    AckMessageRequest,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = pytest.mark.crash

TOPIC, GROUP = "CrashPops", "crash"
SENDERS, CONSUMERS = 4, 4
CALL_TIMEOUT_MS = 20_000
ACKNOWLEDGED_BEFORE_KILL_MAX = 400
INVISIBLE_MS = 300
"""Short, so that many messages come again while the broker is killed."""

SAFE_MS = 150
"""An acknowledgement that was answered so long before the end of the invisible time counts."""

QUIET_POPS = 4
"""Pops in a row that find nothing when all has come."""


class Journal:
    """What clients know.

    Attributes:
        sent: bodies that the broker has.
        acknowledged: bodies of which it has said, well in time, that they are done.
        again: bodies that came after that.
        seen: all that ever came.
    """

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.again: set[bytes] = set()
        self.seen: set[bytes] = set()

    def came(self, body: bytes) -> None:
        """Notes a delivery."""
        self.seen.add(body)
        if body in self.acknowledged:
            self.again.add(body)


async def send(pool: ConnectionPool, address: str, body: bytes, queue_id: int) -> None:
    request = SendMessageV2Request(
        producer_group="crash", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=2,
        queue_id=queue_id, born_timestamp=1, properties="",
    )  # fmt: skip
    await pool.ask_for(address, request, SendMessageResponse, CALL_TIMEOUT_MS, body)


async def pop(
    pool: ConnectionPool, address: str, poll_ms: int
) -> list[tuple[ReceivedMessage, ReceiptHandle]]:
    request = PopMessageRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=ALL_QUEUES, max_msg_nums=8,
        invisible_time=INVISIBLE_MS, poll_time=poll_ms, born_time=0, init_mode=0,
    )  # fmt: skip
    answer = await pool.call(address, request, CALL_TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        assert answer.code in (ResponseCode.POLLING_TIMEOUT, ResponseCode.TOPIC_NOT_EXIST)
        return []
    header = answer.read(PopMessageResponse)
    starts = decode_start_offsets(header.start_offset_info or "")
    found = []
    for message in decode_records(answer.body):
        is_retry = message.topic.startswith(names.RETRY_PREFIX)
        place = QueueOrigin(Origin.RETRY_V1 if is_retry else Origin.TOPIC, message.queue_id)
        handle = ReceiptHandle(
            starts[place], header.pop_time, header.invisible_time, 0, place.origin, "broker-a",
            message.queue_id, message.queue_offset,
        )  # fmt: skip
        found.append((message, handle))
    return found


async def ack(
    pool: ConnectionPool, address: str, message: ReceivedMessage, handle: ReceiptHandle
) -> bool:
    """Acknowledges a message; whether that was answered well before its time was over."""
    request = AckMessageRequest(
        consumer_group=GROUP, topic=message.topic, queue_id=handle.queue_id,
        extra_info=handle.encode(), offset=handle.queue_offset,
    )  # fmt: skip
    await pool.ask(address, request, CALL_TIMEOUT_MS)
    return SystemClock().now_ms() < handle.pop_time + INVISIBLE_MS - SAFE_MS


async def work_until_killed(
    broker: BrokerProcess, chance: random.Random, journal: Journal, name: str
) -> None:
    kill_at = len(journal.acknowledged) + chance.randrange(1, ACKNOWLEDGED_BEFORE_KILL_MAX)
    enough = asyncio.Event()

    async def sender(pool: ConnectionPool, number: int) -> None:
        for i in range(100_000):
            body = f"{name}/{number}/{i}".encode()
            await send(pool, broker.address, body, number % 2)
            journal.sent.add(body)

    async def consumer(pool: ConnectionPool, number: int) -> None:
        while True:
            for message, handle in await pop(pool, broker.address, 1000):
                journal.came(message.body)
                if chance.random() < 0.7 and await ack(pool, broker.address, message, handle):
                    journal.acknowledged.add(message.body)
                if len(journal.acknowledged) >= kill_at:
                    enough.set()

    pools = [ConnectionPool(SystemClock()) for _ in range(SENDERS + CONSUMERS)]
    tasks = [
        asyncio.ensure_future((sender if i < SENDERS else consumer)(pool, i))
        for i, pool in enumerate(pools)
    ]
    await enough.wait()
    await broker.kill()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    for pool in pools:
        await pool.close()
    assert all(isinstance(error, OperatingError) for error in ended), ended


async def take_the_rest(address: str, journal: Journal) -> None:
    """Acknowledges what is left, until nothing comes any more."""
    pool, quiet = ConnectionPool(SystemClock()), 0
    try:
        while quiet < QUIET_POPS:
            found = await pop(pool, address, 2 * INVISIBLE_MS)
            quiet = 0 if found else quiet + 1
            for message, handle in found:
                journal.came(message.body)
                await ack(pool, address, message, handle)
    finally:
        await pool.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_pops_outlive_kills(
    tmp_path: Path, chance: random.Random, rounds: int, flush: str
) -> None:
    journal = Journal()
    settings = {
        "flushDiskType": flush,
        "segmentSize": 64 * 1024,
        "flushIntervalCommitLog": 20,
        "flushDelayOffsetInterval": 20,
        "flushConsumerOffsetInterval": 20,
    }
    for number in range(rounds):
        async with BrokerProcess(tmp_path, **settings) as broker:
            await work_until_killed(broker, chance, journal, f"round {number}")
    async with BrokerProcess(tmp_path, **settings) as broker:
        await take_the_rest(broker.address, journal)
    lost = journal.sent - journal.seen
    assert not lost, f"{len(lost)} of {len(journal.sent)} messages did not come"
    again = journal.again
    assert not again, f"{len(again)} of {len(journal.acknowledged)} acknowledged ones came again"
    assert check_directory(tmp_path).problems == []
