"""`kill -9` of a broker in the middle of transactions: each ends as its producer decided."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from support.crash.broker_process import BrokerProcess

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.clients import Heartbeat, ProducerData
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.clients import HeartbeatRequest
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.requests.transactions import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.connection import Connection
from pocketmq.transport.pool import ConnectionPool

pytestmark = pytest.mark.crash

TOPIC, GROUP = "Crash", "crash"
SENDERS = 6
CALL_TIMEOUT_MS = 20_000
ENDED_BEFORE_KILL_MAX = 150
DECISIONS = (flags.TRANSACTION_COMMIT, flags.TRANSACTION_ROLLBACK, 0)
"""0: the producer says nothing, and decides when it is asked."""


class Book:
    """What the producers decided about each body, and what they were answered."""

    def __init__(self) -> None:
        self.decided: dict[bytes, int] = {}
        self.acknowledged: set[bytes] = set()
        self.stored: set[bytes] = set()

    def decision(self, body: bytes) -> int:
        """The same whenever it is asked."""
        return self.decided[body] or DECISIONS[len(body) % 2]

    def committed(self) -> set[bytes]:
        """What must be delivered in the end."""
        commit = flags.TRANSACTION_COMMIT
        return {b for b in self.decided if b in self.stored and self.decision(b) == commit}


class Place(NamedTuple):
    """Where a half message stands."""

    offset: int
    physical: int


def end_request(place: Place, decision: int, *, from_check: bool) -> EndTransactionRequest:
    return EndTransactionRequest(
        producer_group=GROUP, tran_state_table_offset=place.offset,
        commit_log_offset=place.physical, commit_or_rollback=decision,
        from_transaction_check=from_check, msg_id="x",
    )  # fmt: skip


async def send_half(pool: ConnectionPool, broker: BrokerProcess, body: bytes) -> Place:
    properties = {props.TRANSACTION_PREPARED: "true", props.PRODUCER_GROUP: GROUP}
    request = SendMessageV2Request(
        producer_group=GROUP, topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=1,
        queue_id=0, sys_flag=flags.TRANSACTION_PREPARED,
        born_timestamp=SystemClock().now_ms(), properties=props.encode(properties),
    )  # fmt: skip
    answer = await pool.ask_for(broker.address, request, SendMessageResponse, CALL_TIMEOUT_MS, body)
    return Place(answer.queue_offset, parse_offset_msg_id(answer.msg_id).physical_offset)


async def transact_until_killed(broker: BrokerProcess, chance: random.Random, book: Book) -> None:
    """Runs transactions over several connections until so many ended, then kills the broker."""
    kill_at = len(book.acknowledged) + chance.randrange(1, ENDED_BEFORE_KILL_MAX)
    enough = asyncio.Event()

    async def producer(number: int) -> None:
        pool = ConnectionPool(SystemClock())
        try:
            for i in range(100_000):
                body = f"{len(book.decided)}/{number}/{i}".encode() * chance.randrange(1, 30)
                decision = book.decided[body] = chance.choice(DECISIONS)
                place = await send_half(pool, broker, body)
                book.stored.add(body)
                if decision:
                    request = end_request(place, decision, from_check=False)
                    await pool.ask(broker.address, request, CALL_TIMEOUT_MS)
                    book.acknowledged.add(body)
                if len(book.acknowledged) >= kill_at:
                    enough.set()
        except OperatingError:
            assert enough.is_set(), "the broker went away before it was killed"
        finally:
            await pool.close()

    producers = [asyncio.ensure_future(producer(number)) for number in range(SENDERS)]
    await enough.wait()
    await broker.kill()
    await asyncio.gather(*producers)


async def answer_until_all_is_delivered(broker: BrokerProcess, book: Book) -> set[bytes]:
    """Answers the broker's questions until everything that must be delivered is there."""
    answers: list[asyncio.Task[None]] = []

    async def answer(request: Command, connection: Connection) -> None:
        header = request.read(CheckTransactionStateRequest)
        (message,) = decode_records(request.body)
        # A half message whose send was not answered may be there, too: the producer knows it.
        book.stored.add(message.body)
        place = Place(header.tran_state_table_offset, header.commit_log_offset)
        end = end_request(place, book.decision(message.body), from_check=True)
        with suppress(OperatingError):
            await connection.oneway(Command(end.code, header=end))

    def check(request: Command, connection: Connection) -> None:
        answers.append(asyncio.ensure_future(answer(request, connection)))

    pool = ConnectionPool(SystemClock(), {RequestCode.CHECK_TRANSACTION_STATE: check})
    data = Heartbeat(client_id="c", producer_data_set=[ProducerData(group_name=GROUP)])
    try:
        await pool.ask(broker.address, HeartbeatRequest(), CALL_TIMEOUT_MS, data.encode())
        while True:
            must_come = book.committed()
            if must_come <= set(await bodies(pool, broker.address, TOPIC)):
                return must_come
    finally:
        await pool.close()
        await asyncio.gather(*answers)


async def bodies(pool: ConnectionPool, address: str, topic: str) -> list[bytes]:
    """The bodies of a topic's queue 0."""
    found: list[ReceivedMessage] = []
    offset = 0
    while True:
        request = PullMessageRequest(
            consumer_group=GROUP, topic=topic, queue_id=0, queue_offset=offset,
            sys_flag=PULL_SUBSCRIPTION, subscription="*",
        )  # fmt: skip
        answer = await pool.call(address, request, CALL_TIMEOUT_MS)
        if not answer.body:
            return [message.body for message in found]
        found += decode_records(answer.body)
        offset = answer.read(PullMessageResponse).next_begin_offset


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_every_transaction_ends_as_its_producer_decided(
    tmp_path: Path, chance: random.Random, rounds: int, flush: str
) -> None:
    book = Book()
    settings = {
        "flushDiskType": flush,
        "segmentSize": 64 * 1024,
        "flushIntervalCommitLog": 20,
        "flushDelayOffsetInterval": 20,
        "transactionTimeOut": 0,
        # Checks in the middle of everything, too: whatever they say the producer says as well.
        "transactionCheckInterval": 50,
        "transactionCheckMax": 1_000_000,
    }
    for _ in range(rounds):
        async with BrokerProcess(tmp_path, **settings) as broker:
            await transact_until_killed(broker, chance, book)
    async with BrokerProcess(tmp_path, **settings) as broker:
        must_come = await answer_until_all_is_delivered(broker, book)
        pool = ConnectionPool(SystemClock())
        delivered = Counter(await bodies(pool, broker.address, TOPIC))
        given_up = await bodies(pool, broker.address, names.CHECK_MAX_TIME_TOPIC)
        await pool.close()
    wrong = {b for b in delivered if book.decision(b) != flags.TRANSACTION_COMMIT}
    assert not wrong, "visible, though nobody committed it"
    assert must_come <= delivered.keys()
    assert not given_up
    # Only the commits that a kill came between may come twice: those on their way to each kill.
    assert delivered.total() - len(delivered) <= SENDERS * rounds
    report = check_directory(tmp_path)
    assert report.problems == []
    assert len(book.acknowledged) > 0
