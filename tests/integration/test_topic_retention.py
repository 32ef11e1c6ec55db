"""Topics that say for how long, and how much of them, is kept: on real brokers and in a set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_members import Members
from support.brokers.broker_parts import TOPIC, Client, Stage, advance_until
from support.threads import PatientClock

from pocketmq.broker import Broker
from pocketmq.protocol.requests.brokers import DeleteExpiredFilesRequest
from pocketmq.testing.clock import VirtualClock

HOUR_S = 3600
BODY = b"x" * 50_000
SETTINGS: dict[str, Any] = {
    "segment_size": 65_536,
    "clean_resource_interval": 60_000,
    "flush_interval_commit_log": 60_000,
    "flush_delay_offset_interval": 60_000,
    "register_name_server_period": 60_000,
}


async def send(client: Client, count: int, topic: str) -> None:
    for _ in range(count):
        await client.send(BODY, topic=topic)


def span(broker: Broker, topic: str) -> tuple[int, int]:
    queue_log = broker.store.find_log(topic, 0)
    assert queue_log is not None
    return queue_log.min_offset, queue_log.max_offset


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


@pytest.mark.usefixtures("rare_rounds")
async def test_a_broker_keeps_each_topic_as_it_says_also_after_a_restart(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await stage.started_with_topic(queues=1, **SETTINGS)

    async def until(topic: str, begin: int, end: int) -> None:
        await advance_until(clock, lambda: span(client.broker, topic) == (begin, end), 30)

    await client.create_topic("Short", 1, 1, attributes="+reserve.time=1")
    await client.create_topic("Small", 1, 1, attributes="+pocketmq.retention.bytes=170000")
    for topic in (TOPIC, "Short", "Small"):
        await send(client, 5, topic)
    await until("Small", 2, 5)  # three records of 50 kB are under 170 kB
    assert span(client.broker, "Short") == (0, 5)
    await client.broker.close()
    client = await stage.start(**SETTINGS)
    await clock.advance(HOUR_S)
    await until("Short", 5, 5)
    await client.create_topic("Short", 1, 1, attributes="-reserve.time")
    await client.create_topic("Small", 1, 1, attributes="+pocketmq.retention.bytes=1")
    await send(client, 2, "Short")
    await until("Small", 4, 5)  # the segment that is written stays
    await clock.advance(2 * HOUR_S)
    assert span(client.broker, "Short") == (5, 7)
    assert span(client.broker, "Small") == (4, 5)
    assert span(client.broker, TOPIC) == (0, 5)


async def test_a_round_that_is_asked_for_keeps_to_it_too(stage: Stage) -> None:
    client = await stage.started_with_topic(queues=1, **SETTINGS)
    await client.create_topic(TOPIC, 1, 1, attributes="+pocketmq.retention.bytes=70000")
    await send(client, 3, TOPIC)
    await client.broker.store.checkpoint()
    await client.ask(DeleteExpiredFilesRequest())
    assert span(client.broker, TOPIC) == (2, 3)


async def test_members_of_a_broker_set_keep_the_same(tmp_path: Path) -> None:
    pair = Members(tmp_path, PatientClock(), **{**SETTINGS, "flush_interval_commit_log": 1000})
    await pair.start()
    try:
        leader = pair.leader
        follower = pair.follower
        client = pair.client(leader)
        await client.create_topic(TOPIC, 1, 1, attributes="+pocketmq.retention.bytes=70000")
        for _ in range(4):
            await client.send(BODY, topic=TOPIC)

        def have_dropped() -> bool:
            queue_log = follower.store.find_log(TOPIC, 0)
            return queue_log is not None and queue_log.min_offset == 3

        await advance_until(pair.clock, have_dropped, 5.0)
        assert span(leader, TOPIC) == span(follower, TOPIC) == (3, 4)
        await pair.lose_leader("death")
        client = pair.client(pair.leader)
        assert pair.leader is follower
        await client.send(BODY, topic=TOPIC)
        await advance_until(pair.clock, lambda: span(follower, TOPIC) == (4, 5), 5.0)
    finally:
        await pair.close()
