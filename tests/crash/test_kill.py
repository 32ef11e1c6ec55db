"""`kill -9` of a broker in the middle of sends: everything acknowledged is there afterwards."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pytest
from support.crash.broker_process import BrokerProcess

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import ReceivedMessage
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
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = pytest.mark.crash

TOPIC = "Crash"
QUEUES = 4
SENDERS = 8
CALL_TIMEOUT_MS = 20_000
ACKNOWLEDGED_BEFORE_KILL_MAX = 400

Acknowledged = dict[tuple[int, int], bytes]
"""Body by (queue, offset) of everything that the broker said it has."""


def send_request(queue_id: int) -> SendMessageV2Request:
    return SendMessageV2Request(
        producer_group="crash",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        born_timestamp=1,
        properties="TAGS\x01t\x02",
    )


async def send_until_killed(
    broker: BrokerProcess, chance: random.Random, acknowledged: Acknowledged, name: str
) -> None:
    """Sends from several connections until so many were acknowledged, then kills the broker."""
    kill_at = len(acknowledged) + chance.randrange(1, ACKNOWLEDGED_BEFORE_KILL_MAX)
    enough = asyncio.Event()

    async def sender(number: int) -> None:
        pool = ConnectionPool(SystemClock())
        try:
            for i in range(100_000):
                body = f"{name}/{number}/{i}/".encode() * chance.randrange(1, 60)
                queue_id = chance.randrange(QUEUES)
                answer = await pool.ask_for(
                    broker.address, send_request(queue_id), SendMessageResponse, CALL_TIMEOUT_MS,
                    body,
                )  # fmt: skip
                place = (answer.queue_id, answer.queue_offset)
                assert place not in acknowledged, f"{place} was given out twice"
                acknowledged[place] = body
                if len(acknowledged) >= kill_at:
                    enough.set()
        except OperatingError:
            assert enough.is_set(), "the broker went away before it was killed"
        finally:
            await pool.close()

    senders = [asyncio.ensure_future(sender(number)) for number in range(SENDERS)]
    await enough.wait()
    await broker.kill()
    await asyncio.gather(*senders)


async def stored_messages(address: str) -> dict[int, list[ReceivedMessage]]:
    """Every message of the topic, by queue, from the first to the last."""
    found: dict[int, list[ReceivedMessage]] = defaultdict(list)
    pool = ConnectionPool(SystemClock())
    try:
        for queue_id in range(QUEUES):
            offset = 0
            while True:
                request = PullMessageRequest(
                    consumer_group="crash", topic=TOPIC, queue_id=queue_id, queue_offset=offset,
                    sys_flag=PULL_SUBSCRIPTION, subscription="*",
                )  # fmt: skip
                answer = await pool.call(address, request, CALL_TIMEOUT_MS)
                if answer.code != ResponseCode.SUCCESS:
                    break
                found[queue_id] += decode_records(answer.body)
                offset = answer.read(PullMessageResponse).next_begin_offset
    finally:
        await pool.close()
    return found


def check_nothing_lost(found: dict[int, list[ReceivedMessage]], acknowledged: Acknowledged) -> None:
    for messages in found.values():
        assert [m.queue_offset for m in messages] == list(range(len(messages)))
    bodies = {(q, m.queue_offset): m.body for q, messages in found.items() for m in messages}
    lost = [place for place in acknowledged if bodies.get(place) != acknowledged[place]]
    assert lost == [], f"{len(lost)} of {len(acknowledged)} acknowledged messages are not there"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_nothing_acknowledged_is_lost(
    tmp_path: Path, chance: random.Random, rounds: int, flush: str
) -> None:
    acknowledged: Acknowledged = {}
    settings = {
        "flushDiskType": flush,
        # Small segments and frequent checkpoints, so that kills hit what happens around them.
        "segmentSize": 64 * 1024,
        "flushIntervalCommitLog": 20,
    }
    for number in range(rounds):
        async with BrokerProcess(tmp_path, **settings) as broker:
            check_nothing_lost(await stored_messages(broker.address), acknowledged)
            await send_until_killed(broker, chance, acknowledged, f"round {number}")
    async with BrokerProcess(tmp_path, **settings) as broker:
        check_nothing_lost(await stored_messages(broker.address), acknowledged)
    report = check_directory(tmp_path)
    assert report.problems == []
    assert report.records >= len(acknowledged) > 0


async def test_committed_offsets_survive_within_their_interval(tmp_path: Path) -> None:
    """Offsets that were saved are there after a kill, and never beyond the end of the log."""
    pool = ConnectionPool(SystemClock())
    group = "TOOLS_CONSUMER"  # there from the start
    update = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=TOPIC, queue_id=0, commit_offset=2
    )
    query = QueryConsumerOffsetRequest(consumer_group=group, topic=TOPIC, queue_id=0)
    async with BrokerProcess(tmp_path, flushConsumerOffsetInterval=1) as broker:
        for _ in range(3):
            await pool.ask(broker.address, send_request(0), CALL_TIMEOUT_MS, b"x")
        await pool.ask(broker.address, update, CALL_TIMEOUT_MS)
        saved = False
        while not saved:
            # The broker saves every millisecond; its own file says when it has.
            saved = await asyncio.to_thread(_is_saved, tmp_path / "meta.db", 2)
        await broker.kill()
    async with BrokerProcess(tmp_path) as broker:
        answer = await pool.ask_for(broker.address, query, OffsetResponse, CALL_TIMEOUT_MS)
        assert answer.offset == 2
    await pool.close()


def _is_saved(path: Path, offset: int) -> bool:
    import sqlite3

    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = database.execute("SELECT offset FROM consumer_offsets").fetchall()
    finally:
        database.close()
    return rows == [(offset,)]


async def test_a_second_broker_is_refused_and_the_killed_ones_lock_is_free(tmp_path: Path) -> None:
    async with BrokerProcess(tmp_path) as broker:
        with pytest.raises(AssertionError, match="did not start"):
            await BrokerProcess(tmp_path).__aenter__()
        await broker.kill()
    async with BrokerProcess(tmp_path) as again:
        assert again.address
