"""Limits of the names that clients bring, and what becomes of names that nobody uses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, pull_request, send_request

from pocketmq.broker import Broker
from pocketmq.protocol.bodies.clients import ConsumerData, GroupConfig, Heartbeat, ProducerData
from pocketmq.protocol.bodies.groups import GroupForbidden
from pocketmq.protocol.bodies.locks import LockBatchBody
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.clients import HeartbeatRequest
from pocketmq.protocol.requests.consuming import LockBatchRequest
from pocketmq.protocol.requests.groups import GroupForbiddenRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.topics import CreateTopicRequest, UpdateGroupRequest
from pocketmq.testing.clock import VirtualClock

IDLE_S = 20
QUIET: dict[str, Any] = {
    "idle_group_timeout": IDLE_S * 1000,
    "connection_idle_timeout": 86_400_000,
    "channel_expired_timeout": 86_400_000,
}


def groups_of(broker: Broker) -> set[str]:
    """The groups that are not RocketMQ's own."""
    return {g.group_name for g in broker.groups if g.group_name.startswith("group-")}


async def commit(client: Client, group: str) -> None:
    await client.ask(
        UpdateConsumerOffsetRequest(consumer_group=group, topic=TOPIC, queue_id=0, commit_offset=0)
    )


async def test_groups_that_did_nothing_are_forgotten(stage: Stage, clock: VirtualClock) -> None:
    broker = await stage.broker(**QUIET)
    client, other = stage.client(broker), stage.client(broker)
    await client.create_topic()
    await client.heartbeat(group="group-gone")
    await client.pull(consumer_group="group-pulled")
    await client.close()
    await other.heartbeat(group="group-alive")
    assert groups_of(broker) == {"group-gone", "group-pulled", "group-alive"}
    await clock.advance(2 * IDLE_S + 1)
    assert groups_of(broker) == {"group-alive"}
    assert retry_topic("group-alive") in broker.topics
    assert retry_topic("group-gone") not in broker.topics
    assert not broker.parts.progress.pulled
    await other.heartbeat(group="group-gone")  # as if it was never there
    assert retry_topic("group-gone") in broker.topics
    await broker.close()
    again = await stage.broker(**QUIET)
    assert groups_of(again) == {"group-alive", "group-gone"}
    await clock.advance(2 * IDLE_S + 1)
    assert groups_of(again) == set()


async def test_groups_of_which_anything_is_known_stay(stage: Stage, clock: VirtualClock) -> None:
    broker = await stage.broker(**QUIET)
    client = stage.client(broker)
    await client.create_topic()
    await client.create_topic("Full")
    known = [f"group-{what}" for what in ("offset", "retry", "forbidden", "made", "locks")]
    client.make_group(*known, "group-pulls")
    await commit(client, "group-offset")
    retry = send_request(topic=retry_topic("group-retry"), properties="DELAY\x015\x02")
    await client.ask(retry, b"x")  # it comes in a minute, when the group has long been idle
    await client.ask(
        GroupForbiddenRequest(group="group-forbidden", topic=TOPIC, readable=False),
        GroupForbidden(group="group-forbidden", topic=TOPIC, readable=False).encode(),
    )
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name="group-made").encode())
    locks = LockBatchBody.of("group-locks", "a", [MessageQueue(TOPIC, "broker-a", 0)]).encode()
    await client.ask(LockBatchRequest(), locks)
    for _ in range(5):
        await client.send(topic="Full")
        await client.pull(consumer_group="group-pulls", topic="Full")
        await clock.advance(IDLE_S / 2)
    assert groups_of(broker) == {*known, "group-pulls"}
    await broker.close()
    again = await stage.broker(**QUIET)
    await clock.advance(4 * IDLE_S)
    assert groups_of(again) == set(known) - {"group-locks"}
    assert await stage.client(again).max_offset(topic=retry_topic("group-retry")) == 1


async def test_a_connection_makes_so_many_names(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await stage.broker(max_names_of_connection=3)
    client, other = stage.client(broker), stage.client(broker)
    await client.send()
    await client.pull(consumer_group="group-1")
    await client.pull(consumer_group="group-2")
    code, remark = await client.refusal(pull_request(consumer_group="group-3"))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "made 3 topics and groups by naming them (maxNamesOfConnection)" in remark
    code, remark = await client.refusal(send_request(topic="Another"), b"x")
    assert code == ResponseCode.TOPIC_NOT_EXIST
    assert "(maxNamesOfConnection): create it by an administrative command" in remark
    await client.heartbeat(group="group-4")  # its other groups go on
    assert groups_of(broker) == {"group-1", "group-2"}
    assert caplog.text.count("maxNamesOfConnection") == 1
    await client.send()
    await client.create_topic("Another")
    await other.pull(consumer_group="group-3")
    await client.pull(consumer_group="group-3")
    assert groups_of(broker) == {"group-1", "group-2", "group-3"}


async def test_there_are_so_many_topics_and_groups(stage: Stage) -> None:
    broker = await stage.broker(max_topics=100, max_groups=100)
    client = stage.client(broker)
    client.make_group(*(f"group-{n}" for n in range(100 - len(list(broker.groups)))))
    code, remark = await client.refusal(pull_request(consumer_group="group-x"))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "the broker has 100 groups (maxGroups): delete some" in remark
    code, remark = await client.refusal(
        UpdateGroupRequest(), GroupConfig(group_name="group-x").encode()
    )
    assert (code, "(maxGroups)" in remark) == (ResponseCode.INVALID_PARAMETER, True)
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name="group-1").encode())
    for n in range(100 - len(broker.topics)):
        await client.send(topic=f"Topic-{n}")
    code, remark = await client.refusal(send_request(), b"x")
    assert (code, "the broker has 100 topics (maxTopics)" in remark) == (17, True)
    code, remark = await client.refusal(
        CreateTopicRequest(topic=TOPIC, read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    assert (code, "(maxTopics)" in remark) == (ResponseCode.INVALID_PARAMETER, True)
    await client.create_topic("Topic-1", 2, 2)
    await client.heartbeat(group="group-1")  # the topic of its retries comes nevertheless
    assert retry_topic("group-1") in broker.topics


async def test_a_connection_is_in_so_many_groups(stage: Stage) -> None:
    broker = await stage.broker(max_names_of_connection=2)
    client = stage.client(broker)
    client.make_group(*(f"group-{n}" for n in range(4)))

    def heartbeat(*numbers: int) -> bytes:
        return Heartbeat(
            client_id="a",
            consumer_data_set=[ConsumerData(group_name=f"group-{n}") for n in numbers],
            producer_data_set=[ProducerData(group_name=f"group-{n}") for n in numbers],
        ).encode()

    code, remark = await client.refusal(HeartbeatRequest(), heartbeat(0, 1, 2, 3))
    assert code == ResponseCode.SYSTEM_ERROR
    assert "4 groups of the heartbeat were left out" in remark
    await client.ask(HeartbeatRequest(), heartbeat(0, 1))
    await client.refusal(HeartbeatRequest(), heartbeat(2, 1))
    members = broker.parts.members
    assert {group for group, _ in members.consumers} == {"group-0", "group-1"}
    assert {group for group, _ in members.producers} == {"group-0", "group-1"}


async def test_a_long_heartbeat_is_taken_whole(stage: Stage) -> None:
    broker = await stage.broker()
    client = stage.client(broker)
    names = [f"group-{n}" for n in range(300)]
    data = Heartbeat(
        client_id="a",
        consumer_data_set=[ConsumerData(group_name=name) for name in names],
        producer_data_set=[ProducerData(group_name=name) for name in [*names, GROUP]],
    )
    await client.ask(HeartbeatRequest(), data.encode())
    assert {group for group, _ in broker.parts.members.consumers} == set(names)
    assert {group for group, _ in broker.parts.members.producers} == {*names, GROUP}


async def test_a_turn_of_the_loop_makes_one_topic_of_a_connection(stage: Stage) -> None:
    broker = await stage.broker()
    client, loop = stage.client(broker), asyncio.get_running_loop()
    await client.send()
    made: list[int] = []
    in_turn: list[str] = []

    def note() -> None:
        in_turn.append("topic")
        made.append(len(in_turn))
        loop.call_soon(in_turn.clear)

    broker.topics.changed.add(note)
    answers = await asyncio.gather(*(client.send(topic=f"New-{n}") for n in range(20)))
    assert [answer.queue_offset for answer in answers] == [0] * 20
    assert made == [1] * 20
