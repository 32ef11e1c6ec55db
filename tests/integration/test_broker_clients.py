"""Heartbeats, membership, and what the broker tells the members of a group."""

from __future__ import annotations

import asyncio
import logging

import pytest
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, advance_until
from support.peers.transport import until

from pocketmq.broker.handlers.consuming.clients import GROUPS_PER_TURN
from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    ConsumerConnection,
    ConsumerData,
    ConsumerIdList,
    GroupConfig,
    Heartbeat,
    ProducerConnection,
    Subscription,
    SubscriptionSide,
)
from pocketmq.protocol.bodies.groups import ProducerTableInfo
from pocketmq.protocol.requests.clients import (
    ConsumerConnectionsRequest,
    ConsumerListRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ProducerConnectionsRequest,
    UnregisterClientRequest,
)
from pocketmq.protocol.requests.groups import AllProducersRequest
from pocketmq.protocol.requests.topics import RuntimeInfoRequest, UpdateGroupRequest
from pocketmq.testing.clock import START_MS, VirtualClock, settle
from pocketmq.transport.errors import ConnectionClosedError

ALL = Subscription.of_tags(TOPIC, "*", 1)
OTHER = Subscription.of_tags("Other", "A || B", 1)


async def ids(client: Client, group: str = GROUP) -> list[str]:
    answer = await client.ask(ConsumerListRequest(consumer_group=group))
    return sorted(ConsumerIdList.decode(answer.body).consumer_id_list)


async def connections(client: Client, group: str = GROUP) -> ConsumerConnection:
    answer = await client.ask(ConsumerConnectionsRequest(consumer_group=group))
    return ConsumerConnection.decode(answer.body)


async def producers(client: Client, group: str) -> list[str]:
    answer = await client.ask(ProducerConnectionsRequest(producer_group=group))
    return [c.client_id for c in ProducerConnection.decode(answer.body).connection_set]


async def leave(client: Client, consumer: str | None = None, producer: str | None = None) -> None:
    request = UnregisterClientRequest(
        client_id="client-1", producer_group=producer, consumer_group=consumer
    )
    await client.ask(request)


# -- who is there -------------------------------------------------------------------------------


async def test_a_heartbeat_makes_a_member(client: Client) -> None:
    await client.heartbeat(ALL, OTHER, producer="producers")
    assert await ids(client) == ["client-1"]
    assert await producers(client, "producers") == ["client-1"]
    table = await connections(client)
    (member,) = table.connection_set
    assert (member.client_id, member.language) == ("client-1", "PYTHON")
    assert member.client_addr.startswith("127.0.0.1:")
    assert table.subscription_table == {TOPIC: ALL, "Other": OTHER}
    assert (table.consume_type, table.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert table.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


async def test_a_heartbeat_makes_group_and_retry_topic(client: Client) -> None:
    await client.heartbeat(ALL)
    assert client.broker.groups.get(GROUP) is not None
    topic = client.broker.topics.get(f"%RETRY%{GROUP}")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    config = GroupConfig(group_name="no-retries", retry_queue_nums=0)
    await client.ask(UpdateGroupRequest(), config.encode())
    await client.heartbeat(ALL, group="no-retries")
    assert "%RETRY%no-retries" not in client.broker.topics


async def test_the_answer_tells_what_heartbeats_are_understood(client: Client) -> None:
    body = b'{"clientID":"c","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[]}'
    answer = (await client.ask(HeartbeatRequest(), body)).read(HeartbeatResponse)
    assert answer.is_support_heart_beat_v2 is True
    assert answer.is_sub_change is True
    assert await producers(client, "p") == ["c"]


async def test_where_groups_are_not_made_an_unknown_one_has_no_members(stage: Stage) -> None:
    client = await stage.started_with_topic(auto_create_subscription_group=False)
    await client.heartbeat(ALL, producer="producers")
    assert (await client.refusal(ConsumerListRequest(consumer_group=GROUP))).code == 1
    assert await producers(client, "producers") == ["client-1"], "the client's other groups go on"
    assert f"%RETRY%{GROUP}" not in client.broker.topics
    await client.ask(UpdateGroupRequest(), GroupConfig(group_name=GROUP).encode())
    await client.heartbeat(ALL)
    assert await ids(client) == ["client-1"]


async def test_groups_without_members_are_told_so(client: Client) -> None:
    await client.heartbeat(ALL, producer="producers")
    await leave(client, GROUP, "producers")
    assert await client.refusal(ConsumerListRequest(consumer_group=GROUP)) == (
        1, f"no consumer for this group, {GROUP}"
    )  # fmt: skip
    assert await client.refusal(ConsumerConnectionsRequest(consumer_group=GROUP)) == (
        206, f"the consumer group[{GROUP}] not online"
    )  # fmt: skip
    assert await client.refusal(ProducerConnectionsRequest(producer_group="producers")) == (
        1, "the producer group[producers] not exist"
    )  # fmt: skip
    await leave(client, "never", "there")


async def test_the_last_heartbeat_decides_what_the_group_wants(
    stage: Stage, client: Client
) -> None:
    other = stage.client(client.broker)
    await client.heartbeat(ALL, OTHER)
    await other.heartbeat(OTHER, client_id="client-2")
    assert (await connections(client)).subscription_table == {"Other": OTHER}
    newer = Subscription.of_tags("Other", "C", 2)
    older = Subscription.of_tags("Other", "D", 1)
    await client.heartbeat(newer)
    await client.heartbeat(older)
    assert (await connections(client)).subscription_table == {"Other": newer}


# -- what members are told ----------------------------------------------------------------------


async def test_members_are_told_when_one_joins_leaves_or_is_lost(
    stage: Stage, client: Client
) -> None:
    second, third, outsider = (stage.client(client.broker) for _ in range(3))
    everybody = [client, second, third, outsider]

    async def told(*counts: int) -> None:
        await until(lambda: [len(c.notified) for c in everybody] == list(counts))
        await settle()
        assert [len(c.notified) for c in everybody] == list(counts)

    await outsider.heartbeat(ALL, group="other", client_id="outsider")
    await told(0, 0, 0, 1)
    await client.heartbeat(ALL, client_id="client-1")
    await told(1, 0, 0, 1)
    await second.heartbeat(ALL, client_id="client-2")
    await third.heartbeat(ALL, client_id="client-3")
    await told(3, 2, 1, 1)
    for member in (client, second, third):
        await member.heartbeat(ALL, client_id="renamed")
    await told(3, 2, 1, 1)
    await leave(third, GROUP)
    await told(4, 3, 1, 1)
    await second.close()
    await told(5, 3, 1, 1)
    assert set(client.notified) == {GROUP}
    assert len(await ids(client)) == 1


async def test_members_are_told_when_the_topics_change(stage: Stage, client: Client) -> None:
    other = stage.client(client.broker)
    await client.heartbeat(ALL)
    await other.heartbeat(ALL, client_id="client-2")
    await until(lambda: len(client.notified) == 2)
    await client.heartbeat(ALL, OTHER)
    await until(lambda: len(client.notified) == 3 and len(other.notified) == 2)
    await client.heartbeat(Subscription.of_tags(TOPIC, "A", 2), OTHER)
    await settle()
    assert (len(client.notified), len(other.notified)) == (3, 2), "the set of topics is the same"


async def test_some_groups_are_told_nothing(stage: Stage, client: Client) -> None:
    await client.heartbeat(ALL, group="broadcast", message_model=BROADCASTING)
    config = GroupConfig(group_name="quiet", notify_consumer_ids_changed_enable=False)
    await client.ask(UpdateGroupRequest(), config.encode())
    await client.heartbeat(ALL, group="quiet")
    path = str(stage.directory / "quiet")
    quiet = await stage.start(store_path_root_dir=path, notify_consumer_ids_changed_enable=False)
    await quiet.heartbeat(ALL)
    await quiet.ask(RuntimeInfoRequest())
    await client.ask(RuntimeInfoRequest())
    assert client.notified == quiet.notified == []


# -- heartbeats of version 2 ---------------------------------------------------------------------


async def beat(client: Client, fingerprint: int, *subscriptions: Subscription,
               without_sub: bool = False, client_id: str = "client-1") -> bool:  # fmt: skip
    """Sends a heartbeat with a fingerprint; whether the subscriptions are wanted the next time."""
    data = Heartbeat(
        client_id=client_id,
        consumer_data_set=[
            ConsumerData(group_name=GROUP, subscription_data_set=list(subscriptions))
        ],
        heartbeat_fingerprint=fingerprint,
        without_sub=without_sub,
    )
    answer = (await client.ask(HeartbeatRequest(), data.encode())).read(HeartbeatResponse)
    assert answer.is_support_heart_beat_v2
    assert answer.is_sub_change is not None
    return answer.is_sub_change


async def test_a_short_heartbeat_keeps_the_subscriptions(
    client: Client, clock: VirtualClock
) -> None:
    assert not await beat(client, 7, ALL, OTHER)
    for _ in range(5):
        await clock.advance(30)
        assert not await beat(client, 7, without_sub=True)
    assert (await connections(client)).subscription_table == {TOPIC: ALL, "Other": OTHER}
    assert await ids(client) == ["client-1"]
    assert client.notified == [GROUP]


async def test_a_short_heartbeat_of_a_stranger_asks_for_the_long_one(
    stage: Stage, client: Client
) -> None:
    """As after a restart of the broker: RocketMQ's would never learn of the subscriptions."""
    assert await beat(client, 7, without_sub=True)
    assert (await connections(client)).subscription_table == {}
    assert not await beat(client, 7, ALL)
    assert not await beat(client, 7, without_sub=True)
    other = stage.client(client.broker)
    assert await beat(other, 7, without_sub=True, client_id="client-2")
    assert await beat(client, 8, without_sub=True), "it has announced others than it had told"


async def test_members_that_differ_go_on_with_long_heartbeats(stage: Stage, client: Client) -> None:
    other = stage.client(client.broker)
    assert not await beat(client, 7, ALL)
    assert await beat(other, 8, OTHER, client_id="client-2")
    assert await beat(client, 7, without_sub=True)
    assert await beat(other, 8, OTHER, client_id="client-2")
    assert not await beat(other, 8, without_sub=True, client_id="client-2")


# -- members that subscribe differently ----------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    return [text for text in found if "subscribe differently" in text]


async def test_members_that_subscribe_differently_are_noticed_once(
    stage: Stage, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other, third = stage.client(client.broker), stage.client(client.broker)
    await client.heartbeat(ALL)
    await third.heartbeat(ALL, client_id="client-3")
    assert (await connections(client)).subscription_conflict is None
    for _ in range(3):
        await other.heartbeat(OTHER, client_id="client-2")
        await client.heartbeat(ALL)
    (warning,) = warnings(caplog)
    for word in (GROUP, "client-1", "client-2", f"{TOPIC} *", "Other A || B", "a group of its own"):
        assert word in warning
    table = await connections(client)
    assert table.subscription_conflict == [
        SubscriptionSide(
            subscription=f"{TOPIC} *", member_count=2, client_ids=["client-1", "client-3"]
        ),
        SubscriptionSide(subscription="Other A || B", member_count=1, client_ids=["client-2"]),
    ]
    assert {c.client_id: c.subscription for c in table.connection_set} == {
        "client-1": f"{TOPIC} *", "client-2": "Other A || B", "client-3": f"{TOPIC} *",
    }  # fmt: skip


async def test_a_group_that_rolls_over_agrees_in_the_end(
    stage: Stage, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = stage.client(client.broker)
    await client.heartbeat(ALL)
    await other.heartbeat(ALL, client_id="client-2")
    new = Subscription.of_tags(TOPIC, "New", 2)
    await client.heartbeat(new)
    assert (await connections(client)).subscription_conflict is not None
    await other.heartbeat(new, client_id="client-2")
    assert (await connections(client)).subscription_conflict is None
    assert len(warnings(caplog)) == 1
    assert f"the members of group {GROUP} subscribe alike again" in caplog.text
    await other.heartbeat(ALL, client_id="client-2")
    assert len(warnings(caplog)) == 2, "a new conflict is a new warning"
    await other.close()
    assert (await connections(client)).subscription_conflict is None


async def test_members_of_one_subscription_in_other_words_agree(
    stage: Stage, client: Client
) -> None:
    other = stage.client(client.broker)
    retry = Subscription.of_tags(f"%RETRY%{GROUP}", "*", 1)
    await client.heartbeat(Subscription.of_tags(TOPIC, "A || B", 1), retry)
    await other.heartbeat(Subscription.of_tags(TOPIC, "B||A", 9), client_id="client-2")
    assert (await connections(client)).subscription_conflict is None


async def test_all_producers_are_listed(stage: Stage, client: Client) -> None:
    other = stage.client(client.broker)
    await client.heartbeat(group="", producer="p")
    await other.heartbeat(group="", producer="p", client_id="client-2")
    table = ProducerTableInfo.decode((await client.ask(AllProducersRequest())).body).data
    assert {info.client_id for info in table["p"]} == {"client-1", "client-2"}
    assert {(info.language, info.last_update_timestamp) for info in table["p"]} == {
        ("PYTHON", START_MS)
    }


# -- who is forgotten ---------------------------------------------------------------------------


async def test_a_closed_connection_is_forgotten_at_once(stage: Stage, client: Client) -> None:
    other = stage.client(client.broker)
    await client.heartbeat(ALL)
    await other.heartbeat(ALL, client_id="client-2", producer="producers")
    await other.close()
    assert await ids(client) == ["client-1"]
    assert (await client.refusal(ProducerConnectionsRequest(producer_group="producers"))).code == 1


async def test_without_a_heartbeat_for_120_s_a_client_is_forgotten(
    stage: Stage, client: Client, clock: VirtualClock
) -> None:
    silent = stage.client(client.broker)
    await client.heartbeat(ALL)
    await silent.heartbeat(ALL, client_id="client-2", producer="producers")
    await until(lambda: len(client.notified) == 2)
    connection = await silent.pool.get(client.broker.address)
    for _ in range(4):
        await clock.advance(29)
        await client.heartbeat(ALL)
        await silent.ask(RuntimeInfoRequest())  # it is connected and busy, only no member any more
    assert await ids(client) == ["client-1", "client-2"], "after 116 s"
    await advance_until(clock, lambda: connection.is_closing)
    assert clock.monotonic() <= 131
    await until(lambda: len(client.notified) == 3)
    assert await ids(client) == ["client-1"]
    assert (await client.refusal(ProducerConnectionsRequest(producer_group="producers"))).code == 1
    await silent.heartbeat(ALL, client_id="client-2")
    assert await ids(client) == ["client-1", "client-2"], "it may come back"


async def test_of_many_that_leave_together_the_others_are_told_once(stage: Stage) -> None:
    broker = await stage.broker()
    clients = [stage.client(broker) for _ in range(5)]
    for number, client in enumerate(clients):
        await client.heartbeat(client_id=f"client-{number}")
    first = clients[0]
    await until(lambda: len(first.notified) == 5)
    group = broker.parts.members.consumers.get(GROUP)
    assert group is not None
    for connection in list(group.members)[1:4]:
        broker.parts.members.consumers.leave_all(connection)
    await until(lambda: len(first.notified) == 6)
    await first.max_offset()
    assert len(first.notified) == 6


def crowd(count: int) -> bytes:
    """A heartbeat of a client that is in very many groups."""
    groups = [ConsumerData(group_name=f"crowd-{number}") for number in range(count)]
    return Heartbeat(client_id="client-1", consumer_data_set=groups).encode()


async def test_very_many_groups_are_taken_in_turns(client: Client) -> None:
    count = 3 * GROUPS_PER_TURN + 1
    broker = client.broker
    asked = asyncio.ensure_future(client.ask(HeartbeatRequest(), crowd(count)))
    seen = set[int]()

    def look() -> bool:
        seen.add(len(dict(broker.parts.members.consumers)))
        return asked.done()

    await until(look)
    assert seen >= {GROUPS_PER_TURN, 2 * GROUPS_PER_TURN, count}
    assert await ids(client, f"crowd-{count - 1}") == ["client-1"]
    assert f"%RETRY%crowd-{count - 1}" in broker.topics


async def test_who_leaves_in_the_middle_of_a_heartbeat_is_no_member(client: Client) -> None:
    broker = client.broker
    asked = asyncio.ensure_future(client.ask(HeartbeatRequest(), crowd(10 * GROUPS_PER_TURN)))
    await until(lambda: broker.parts.members.consumers.get("crowd-0"))
    group = broker.parts.members.consumers.get("crowd-0")
    assert group is not None
    (connection,) = group.members
    connection.abort("a test")
    with pytest.raises(ConnectionClosedError):
        await asked
    await until(lambda: not dict(broker.parts.members.consumers))
    await settle()
    assert not dict(broker.parts.members.consumers)
