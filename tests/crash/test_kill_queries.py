"""`kill -9` of a broker that stores and indexes: what it acknowledged is found by its keys."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from support.crash.broker_process import BrokerProcess

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.queries import QueryMessageRequest
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = pytest.mark.crash

TOPIC = "CrashKeys"
QUEUES = 2
SENDERS = 8
CALL_TIMEOUT_MS = 60_000
SENT_BEFORE_KILL_MIN, SENT_BEFORE_KILL_MAX = 2000, 4000
"""More than one segment in each queue."""

ASKED_FOR = 60
SETTINGS = {
    "segmentSize": 256 * 1024,
    "flushIntervalCommitLog": 50,
}


def send_request(key: str, queue_id: int) -> SendMessageV2Request:
    text = props.encode({props.KEYS: f"all {key}", props.UNIQ_KEY: f"U{key}"})
    return SendMessageV2Request(
        producer_group="crash",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        born_timestamp=1,
        properties=text,
    )


async def send_until_killed(
    broker: BrokerProcess, chance: random.Random, acknowledged: dict[str, int], round_: int
) -> None:
    """Sends until so many were acknowledged, then kills the broker."""
    kill_at = len(acknowledged) + chance.randrange(SENT_BEFORE_KILL_MIN, SENT_BEFORE_KILL_MAX)
    enough = asyncio.Event()

    async def sender(number: int) -> None:
        pool = ConnectionPool(SystemClock())
        try:
            for i in range(100_000):
                key = f"k-{round_}-{number}-{i}"
                body = bytes(chance.randrange(1, 600))
                request = send_request(key, chance.randrange(QUEUES))
                await pool.ask_for(
                    broker.address, request, SendMessageResponse, CALL_TIMEOUT_MS, body
                )
                acknowledged[key] = len(body)
                if len(acknowledged) >= kill_at:
                    enough.set()
        except OperatingError:
            if not enough.is_set():  # the broker went away before it was killed
                raise
        finally:
            await pool.close()

    senders = [asyncio.ensure_future(sender(number)) for number in range(SENDERS)]
    await enough.wait()
    await broker.kill()
    await asyncio.gather(*senders)


def key_files(data: Path) -> list[Path]:
    return list(data.rglob("*.keys"))


async def body_sizes(pool: ConnectionPool, address: str, key: str) -> list[int]:
    request = QueryMessageRequest(
        topic=TOPIC, key=key, max_num=64, begin_timestamp=0, end_timestamp=2**63 - 1
    )
    answer = await pool.ask(address, request, CALL_TIMEOUT_MS)
    return [len(message.body) for message in decode_records(answer.body)]


@pytest.mark.timeout(600)
async def test_what_was_acknowledged_is_found_after_kills(
    tmp_path: Path, seed: int, pytestconfig: pytest.Config
) -> None:
    chance = random.Random(seed)
    data = tmp_path / "store"
    acknowledged: dict[str, int] = {}
    for round_ in range(pytestconfig.option.crash_rounds):
        async with BrokerProcess(data, **SETTINGS) as broker:
            await send_until_killed(broker, chance, acknowledged, round_)
        async with BrokerProcess(data, **SETTINGS) as broker:
            pool = ConnectionPool(SystemClock())
            for key in chance.sample(sorted(acknowledged), ASKED_FOR):
                assert await body_sizes(pool, broker.address, key) == [acknowledged[key]]
                assert await body_sizes(pool, broker.address, f"U{key}") == [acknowledged[key]]
            assert len(await body_sizes(pool, broker.address, "all")) == 64
            while not key_files(data):  # as long as it takes
                await body_sizes(pool, broker.address, "all")
            await pool.close()
    assert check_directory(data).problems == []
