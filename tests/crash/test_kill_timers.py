"""`kill -9` of a broker among timers: all acknowledged come, none early, none that was recalled."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from support.crash.broker_process import BrokerProcess

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.protocol.requests.sending import (
    RecallMessageRequest,
    SendMessageResponse,
    SendMessageV2Request,
)
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

pytestmark = pytest.mark.crash

TOPIC = "CrashTimers"
SENDERS = 8
CALL_TIMEOUT_MS = 20_000
ACKNOWLEDGED_BEFORE_KILL_MAX = 300
DELAY_MS_MAX = 2_000
RECALL_DELAY_MS = 3_000
"""Of what is recalled: long enough for the recall to come before its slot."""


class Timers:
    """What was sent and what the broker said of it.

    Attributes:
        due_ms: by body, of every timer that it said it has.
        recalled: of which it said that it does not deliver them.
        doubtful: of which the recall was under way when the broker was killed.
    """

    def __init__(self) -> None:
        self.due_ms: dict[bytes, int] = {}
        self.recalled: set[bytes] = set()
        self.doubtful: set[bytes] = set()


def timer_request(due_ms: int) -> SendMessageV2Request:
    return SendMessageV2Request(
        producer_group="crash",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        born_timestamp=1,
        properties=props.encode({props.TIMER_DELIVER_MS: str(due_ms)}),
    )


async def send_timer(pool: ConnectionPool, address: str, due_ms: int, body: bytes) -> str | None:
    answer = await pool.ask_for(
        address, timer_request(due_ms), SendMessageResponse, CALL_TIMEOUT_MS, body
    )
    return answer.recall_handle


async def recall(
    pool: ConnectionPool, address: str, handle: str, body: bytes, timers: Timers
) -> None:
    timers.doubtful.add(body)
    request = RecallMessageRequest(topic=TOPIC, recall_handle=handle)
    answer = await pool.call(address, request, CALL_TIMEOUT_MS)
    if answer.code == ResponseCode.SUCCESS:
        timers.recalled.add(body)
    else:  # on a slow machine its time is over
        assert answer.code == ResponseCode.ILLEGAL_OPERATION, answer.remark
    timers.doubtful.discard(body)


async def send_until_killed(
    broker: BrokerProcess, chance: random.Random, timers: Timers, name: str
) -> None:
    clock = SystemClock()
    kill_at = len(timers.due_ms) + chance.randrange(1, ACKNOWLEDGED_BEFORE_KILL_MAX)
    enough = asyncio.Event()

    async def sender(number: int) -> None:
        pool = ConnectionPool(clock)
        try:
            for i in range(100_000):
                body = f"{name}/{number}/{i}".encode()
                is_recalled = chance.random() < 0.2
                delay_ms = RECALL_DELAY_MS if is_recalled else chance.randrange(DELAY_MS_MAX)
                due_ms = clock.now_ms() + delay_ms
                handle = await send_timer(pool, broker.address, due_ms, body)
                timers.due_ms[body] = due_ms
                if is_recalled and handle is not None:
                    await recall(pool, broker.address, handle, body, timers)
                if len(timers.due_ms) >= kill_at:
                    enough.set()
        except OperatingError:
            assert enough.is_set(), "the broker went away before it was killed"
        finally:
            await pool.close()

    senders = [asyncio.ensure_future(sender(number)) for number in range(SENDERS)]
    await enough.wait()
    await broker.kill()
    await asyncio.gather(*senders)


async def delivered_until(address: str, last: bytes) -> list[ReceivedMessage]:
    """Everything that comes up to a certain message."""
    found: list[ReceivedMessage] = []
    pool = ConnectionPool(SystemClock())
    offset = 0
    try:
        while not any(m.body == last for m in found):
            request = PullMessageRequest(
                consumer_group="crash", topic=TOPIC, queue_id=0, queue_offset=offset,
                sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND, subscription="*",
                suspend_timeout_millis=5_000,
            )  # fmt: skip
            answer = await pool.call(address, request, CALL_TIMEOUT_MS)
            if answer.code == ResponseCode.SUCCESS:
                found += decode_records(answer.body)
                offset = answer.read(PullMessageResponse).next_begin_offset
    finally:
        await pool.close()
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_timers_outlive_kills(
    tmp_path: Path, chance: random.Random, rounds: int, flush: str
) -> None:
    timers = Timers()
    settings = {
        "flushDiskType": flush,
        "segmentSize": 64 * 1024,
        "flushIntervalCommitLog": 20,
        "flushDelayOffsetInterval": 20,
    }
    for number in range(rounds):
        async with BrokerProcess(tmp_path, **settings) as broker:
            await send_until_killed(broker, chance, timers, f"round {number}")
    async with BrokerProcess(tmp_path, **settings) as broker:
        pool = ConnectionPool(SystemClock())
        # Timers come in order of their times: behind this one nothing is left.
        handle, last = None, b""
        while handle is None:  # else the machine was so slow that it was stored at once
            due_ms = max(SystemClock().now_ms() + 2_000, *timers.due_ms.values()) + 1
            last = b"last %d" % due_ms
            handle = await send_timer(pool, broker.address, due_ms, last)
        await pool.close()
        found = await delivered_until(broker.address, last)
    bodies = {m.body for m in found}
    lost = timers.due_ms.keys() - timers.recalled - timers.doubtful - bodies
    assert not lost, f"{len(lost)} of {len(timers.due_ms)} acknowledged timers did not come"
    assert not timers.recalled & bodies, "a recalled message was delivered"
    early = [m for m in found if m.store_timestamp < int(m.properties[props.TIMER_DELIVER_MS])]
    assert not early
    assert check_directory(tmp_path).problems == []
