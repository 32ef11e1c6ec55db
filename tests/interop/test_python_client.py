"""This project's client beside Apache's: on Apache's broker, and reading what Java wrote."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.interop import known_messages
from support.interop.clusters import Cluster
from support.interop.known_messages import KnownMessage
from support.scenarios.blocking import without_an_event_loop
from support.scenarios.client import RETRY_SCENARIOS, SCENARIOS
from support.scenarios.extra import EXTRA_SCENARIOS
from support.scenarios.group import GROUP_SCENARIOS
from support.scenarios.polling import POLLING_SCENARIOS, polls_without_an_event_loop
from support.scenarios.popping import POPPING_SCENARIOS, receives_without_an_event_loop
from support.scenarios.query import QUERY_SCENARIOS

from pocketmq.client import (
    Admin,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullStatus,
    ReceivedMessage,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

RunProbe = Callable[..., Any]
NewName = Callable[[str], str]


BASIC_SCENARIOS = SCENARIOS[:4]
MORE_SCENARIOS = (
    SCENARIOS[4:]
    + RETRY_SCENARIOS
    + POLLING_SCENARIOS
    + GROUP_SCENARIOS
    + EXTRA_SCENARIOS
    + QUERY_SCENARIOS
    + POPPING_SCENARIOS
)


@pytest.mark.parametrize(
    "scenario",
    [
        *BASIC_SCENARIOS,
        *(pytest.param(s, marks=pytest.mark.whole_interop) for s in MORE_SCENARIOS),
    ],
    ids=lambda s: s.__name__,
)
async def test_on_apaches_broker(
    apache: Cluster, scenario: Callable[[str], Awaitable[None]]
) -> None:
    await scenario(apache.namesrv)


@pytest.mark.whole_interop
async def test_on_apaches_broker_without_an_event_loop(apache: Cluster) -> None:
    await asyncio.to_thread(without_an_event_loop, apache.namesrv)
    await asyncio.to_thread(polls_without_an_event_loop, apache.namesrv)
    await asyncio.to_thread(receives_without_an_event_loop, apache.namesrv)


async def make_topic(namesrv: str, topic: str) -> None:
    async with Admin(namesrv) as admin:
        await admin.create_topic(topic, known_messages.QUEUES)


def message_of(known: KnownMessage, topic: str) -> Message:
    return Message(
        topic,
        known.body,
        tags=known.tags,
        keys=known.keys.split() if known.keys else (),
        properties=known.properties,
        flag=known.flag,
    )


async def write_known(namesrv: str, topic: str) -> None:
    async with Producer("interop-python", namesrv) as producer:
        broker = (await producer.queues(topic))[0].broker_name
        for known in known_messages.known_messages():
            queue = MessageQueue(topic, broker, known.queue_id)
            await producer.send(message_of(known, topic), queue=queue)


async def read_all(namesrv: str, topic: str) -> dict[int, list[ReceivedMessage]]:
    found: dict[int, list[ReceivedMessage]] = defaultdict(list)
    async with PullConsumer("interop-python", namesrv) as consumer:
        for queue in await consumer.queues(topic):
            result = await consumer.pull(queue, 0)
            while result.status is PullStatus.FOUND:
                found[queue.queue_id] += result.messages
                result = await consumer.pull(queue, result.next_offset)
    return found


async def test_java_reads_what_python_wrote(
    cluster: Cluster, java: RunProbe, new_name: NewName
) -> None:
    topic = new_name("python-to-java")
    await make_topic(cluster.namesrv, topic)
    await write_known(cluster.namesrv, topic)
    consumed = await asyncio.to_thread(
        java, "consume-known", topic=topic, messages=known_messages.FILE
    )
    assert consumed["differences"] == []


async def test_python_reads_what_java_wrote(
    cluster: Cluster, java: RunProbe, new_name: NewName
) -> None:
    topic = new_name("java-to-python")
    await make_topic(cluster.namesrv, topic)
    await asyncio.to_thread(java, "produce-known", topic=topic, messages=known_messages.FILE)
    found = await read_all(cluster.namesrv, topic)
    expected: dict[int, list[KnownMessage]] = defaultdict(list)
    for known in known_messages.known_messages():
        expected[known.queue_id].append(known)
    assert {q: len(messages) for q, messages in found.items()} == {
        q: len(messages) for q, messages in expected.items()
    }
    for queue_id, wanted in expected.items():
        for known, message in zip(wanted, found[queue_id], strict=True):
            assert message.body == known.body
            assert (message.tags or None) == known.tags
            assert " ".join(message.keys) == (known.keys or "")
            assert message.flag == known.flag
            assert known.properties.items() <= message.properties.items()
