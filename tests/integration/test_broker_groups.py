"""Groups: their settings (200, 201, 207, 225, 352, 353), and how far they are (43, 208, 300 …)."""

from __future__ import annotations

from typing import Any

import pytest
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage

from pocketmq.protocol.bodies.clients import GroupConfig, GroupConfigTable, Subscription
from pocketmq.protocol.bodies.groups import (
    ConsumerOffsetTable,
    ConsumeTimeSpans,
    CorrectionOffsets,
    DelayOffsets,
    GroupConfigList,
    GroupForbidden,
    GroupList,
    GroupSubscription,
)
from pocketmq.protocol.bodies.topics import ConsumeStats, KVTable, OffsetWrapper, TopicList
from pocketmq.protocol.messages.properties import encode
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.groups import (
    AllConsumerOffsetsRequest,
    AllDelayOffsetsRequest,
    AllGroupConfigResponse,
    BrokerConsumeStatsRequest,
    ConsumeTimeSpanRequest,
    CorrectionOffsetsRequest,
    GroupForbiddenRequest,
    GroupSubscriptionRequest,
    GroupTopicsRequest,
    TopicGroupsRequest,
    UpdateGroupListRequest,
)
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.topics import (
    AllGroupConfigRequest,
    ConsumeStatsRequest,
    DeleteGroupRequest,
    GroupConfigRequest,
    RuntimeInfoRequest,
    UpdateGroupRequest,
)
from pocketmq.protocol.wire import loose_json
from pocketmq.testing.clock import START_MS, VirtualClock

ALL = Subscription.of_tags(TOPIC, "*", 1)


def config(name: str = GROUP, **settings: Any) -> bytes:
    return GroupConfig(group_name=name, **settings).encode()


async def settings_of(client: Client, group: str = GROUP) -> GroupConfig:
    return GroupConfig.decode((await client.ask(GroupConfigRequest(group=group))).body)


async def commit(client: Client, offset: int, queue_id: int = 0, topic: str = TOPIC,
                 group: str = GROUP) -> None:  # fmt: skip
    client.make_group(group)
    request = UpdateConsumerOffsetRequest(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )
    await client.ask(request)


# -- settings -----------------------------------------------------------------------------------


async def test_groups_are_created_changed_and_listed(stage: Stage, client: Client) -> None:
    await client.ask(UpdateGroupRequest(), config(retry_max_times=3, consume_enable=False))
    assert (await settings_of(client)).retry_max_times == 3
    assert (await client.pull()).code == 16
    await client.ask(UpdateGroupRequest(), config(retry_max_times=4))
    assert (await client.pull()).code == 19
    answer = await client.ask(AllGroupConfigRequest())
    table = GroupConfigTable.decode(answer.body)
    assert table.subscription_group_table[GROUP].retry_max_times == 4
    assert "TOOLS_CONSUMER" in table.subscription_group_table
    assert table.data_version.counter == 2
    total = len(table.subscription_group_table)
    assert answer.read(AllGroupConfigResponse).total_group_num == total
    await client.broker.close()
    again = await stage.start()
    table = GroupConfigTable.decode((await again.ask(AllGroupConfigRequest())).body)
    assert table.subscription_group_table[GROUP].retry_max_times == 4
    assert table.data_version.counter == 2, "slaves compare it"


async def test_all_groups_come_in_pages_if_so_wished(client: Client) -> None:
    everybody = [f"g{i}" for i in range(5)]
    body = GroupConfigList(group_config_list=[GroupConfig(group_name=g) for g in everybody])
    await client.ask(UpdateGroupListRequest(), body.encode())
    seen: list[str] = []
    while True:
        request = AllGroupConfigRequest(group_seq=len(seen), max_group_num=2)
        answer = await client.ask(request)
        page = GroupConfigTable.decode(answer.body).subscription_group_table
        if not page:
            break
        seen += page
    assert len(seen) == len(set(seen)) == answer.read(AllGroupConfigResponse).total_group_num
    assert set(everybody) <= set(seen)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"group_name": "bad name"}, "bad name"),
        ({"group_name": ""}, "blank"),
        ({"retry_queue_nums": -1}, "retryQueueNums is -1"),
        ({"retry_queue_nums": 1 << 20}, "retryQueueNums"),
        ({"retry_max_times": -2}, "retryMaxTimes is -2"),
        ({"attributes": {"+": "x"}}, "attribute '+' has no name"),
    ],
)
async def test_settings_that_cannot_be_are_refused(
    client: Client, settings: dict[str, Any], word: str
) -> None:
    bad = GroupConfig(**({"group_name": GROUP} | settings))
    code, remark = await client.refusal(UpdateGroupRequest(), bad.encode())
    assert (code, word in remark) == (29, True)
    body = GroupConfigList(group_config_list=[GroupConfig(group_name="good"), bad])
    assert (await client.refusal(UpdateGroupListRequest(), body.encode())).code == 29
    assert client.broker.groups.get("good") is None, "all or none"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"x", b'{"groupName":7,"retryQueueNums":"x"}'])
async def test_a_body_that_is_none_is_refused(client: Client, body: bytes) -> None:
    assert (await client.refusal(UpdateGroupRequest(), body)).code == 1
    await client.ask(AllGroupConfigRequest())


async def test_attributes_are_added_and_removed(client: Client) -> None:
    await client.ask(
        UpdateGroupRequest(), config(attributes={"+lite.bind.topic": "1", "+priority.factor": "2"})
    )
    await client.ask(
        UpdateGroupRequest(),
        config(attributes={"-priority.factor": "", "+lite.sub.model": "Shared"}),
    )
    settings = await settings_of(client)
    kept = {"lite.bind.topic": "1", "lite.sub.model": "Shared"}
    assert settings.attributes == kept
    settings.retry_max_times = 5
    await client.ask(UpdateGroupRequest(), settings.encode())
    assert (await settings_of(client)).attributes == kept
    wrong = config(attributes={"+nonsense": "1"})
    code, remark = await client.refusal(UpdateGroupRequest(), wrong)
    assert (code, remark.startswith("unsupported key: nonsense")) == (1, True)


async def test_a_retry_topic_grows_with_its_group(client: Client) -> None:
    """RocketMQ puts failed messages into queues that nobody reads then."""
    await client.heartbeat(ALL)
    await client.ask(UpdateGroupRequest(), config(retry_queue_nums=3))
    topic = client.broker.topics.get(retry_topic(GROUP))
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums) == (3, 3)
    await client.ask(UpdateGroupRequest(), config(retry_queue_nums=1))
    topic = client.broker.topics.get(retry_topic(GROUP))
    assert topic is not None
    assert topic.write_queue_nums == 3, "they may hold messages"


async def test_a_group_is_deleted_and_its_topics_are_not(client: Client) -> None:
    await client.heartbeat(ALL)
    await client.ask(DeleteGroupRequest(group_name=GROUP))
    await client.ask(DeleteGroupRequest(group_name="never there"))
    assert client.broker.groups.get(GROUP) is None
    assert retry_topic(GROUP) in client.broker.topics


async def test_a_group_can_be_kept_from_a_topic(stage: Stage, client: Client) -> None:
    async def forbidden(readable: bool | None = None) -> bool:
        request = GroupForbiddenRequest(group=GROUP, topic=TOPIC, readable=readable)
        body = GroupForbidden.decode((await client.ask(request)).body)
        assert (body.group, body.topic) == (GROUP, TOPIC)
        return not body.readable

    await client.ask(UpdateGroupRequest(), config())
    assert not await forbidden()
    assert await forbidden(readable=False)
    refused = await client.pull()
    assert refused.code == 16
    assert "forbidden for topic" in (refused.status or "")
    assert (await client.pull(consumer_group="other")).code == 19
    table = GroupConfigTable.decode((await client.ask(AllGroupConfigRequest())).body)
    assert table.forbidden_table == {GROUP: {TOPIC: 4}}
    await client.broker.close()
    client = await stage.start()
    assert await forbidden()
    assert not await forbidden(readable=True)
    assert (await client.pull()).code == 19
    unknown = GroupForbiddenRequest(group="unknown", topic=TOPIC, readable=False)
    assert (await client.refusal(unknown)).code == 26


# -- how far they are ---------------------------------------------------------------------------


async def stats_of(
    client: Client, topic: str | None = None, topics: str | None = None
) -> dict[tuple[str, int], OffsetWrapper]:
    request = ConsumeStatsRequest(consumer_group=GROUP, topic=topic, topic_list=topics)
    table = ConsumeStats.decode((await client.ask(request)).body).offset_table
    assert {key.broker_name for key in table} <= {"broker-a"}
    return {(key.topic, key.queue_id): offsets for key, offsets in table.items()}


async def test_lag_and_what_is_under_way(client: Client, clock: VirtualClock) -> None:
    for _ in range(5):
        await client.send()
        await clock.advance(1)
    await commit(client, 2)
    stats = await stats_of(client)
    assert stats[TOPIC, 0] == OffsetWrapper(
        broker_offset=5, consumer_offset=2, pull_offset=2, last_timestamp=START_MS + 1000
    )
    assert stats[TOPIC, 1] == OffsetWrapper(
        broker_offset=0, consumer_offset=0, pull_offset=0, last_timestamp=0
    )
    assert len(stats) == 4
    await client.pull(2, max_msg_nums=2)
    assert (await stats_of(client, TOPIC))[TOPIC, 0].pull_offset == 4
    await commit(client, 5)
    assert (await stats_of(client))[TOPIC, 0].pull_offset == 5, "never behind what is committed"
    assert await stats_of(client, "Unknown") == {}


async def test_the_rate_is_that_of_the_last_minute(client: Client, clock: VirtualClock) -> None:
    await commit(client, 0)

    async def rate() -> float:
        request = ConsumeStatsRequest(consumer_group=GROUP)
        return ConsumeStats.decode((await client.ask(request)).body).consume_tps

    for second in range(10):
        for _ in range(4):
            await client.send()
        assert len((await client.pull(second * 4)).messages) == 4
        await clock.advance(1)
    assert await rate() == 4
    await clock.advance(120)
    assert await rate() == 0


async def test_topics_that_members_do_not_subscribe_to_are_left_out(client: Client) -> None:
    await client.create_topic("Old", 1, 1)
    await commit(client, 1)
    await commit(client, 1, topic="Old")
    assert {topic for topic, _ in await stats_of(client)} == {TOPIC, "Old"}
    await client.heartbeat(ALL)
    assert {topic for topic, _ in await stats_of(client)} == {TOPIC}
    assert await stats_of(client, "Old") == {}
    assert {topic for topic, _ in await stats_of(client, topics="Old;Unknown")} == {"Old"}


async def test_the_lag_of_all_groups(client: Client) -> None:
    for _ in range(3):
        await client.send()
    await commit(client, 1)
    await commit(client, 3, group="other")
    answer = await client.ask(BrokerConsumeStatsRequest(is_order=False))
    body = loose_json.decode(answer.body, dict[str, Any])
    assert body["brokerAddr"] == client.broker.address
    assert (body["totalDiff"], body["totalInflightDiff"]) == (2, 0)
    rows = {group: rows for table in body["consumeStatsList"] for group, rows in table.items()}
    assert [len(rows[group]) for group in (GROUP, "other", "TOOLS_CONSUMER")] == [1, 1, 0]
    answer = await client.ask(BrokerConsumeStatsRequest(is_order=True))
    assert loose_json.decode(answer.body, dict[str, Any])["totalDiff"] == 0


async def test_the_times_of_queues(client: Client, clock: VirtualClock) -> None:
    for _ in range(3):
        await client.send()
        await clock.advance(10)
    await commit(client, 2)
    answer = await client.ask(ConsumeTimeSpanRequest(topic=TOPIC, group=GROUP))
    spans = ConsumeTimeSpans.decode(answer.body).consume_time_span_set
    first, second = spans[:2]
    assert (first.message_queue.queue_id, first.message_queue.topic) == (0, TOPIC)
    assert (first.min_time_stamp, first.max_time_stamp) == (START_MS, START_MS + 20_000)
    assert (first.consume_time_stamp, first.delay_time) == (START_MS + 10_000, 10_000)
    assert (second.min_time_stamp, second.consume_time_stamp, second.delay_time) == (-1, -1, 0)
    request = ConsumeTimeSpanRequest(topic="Unknown", group=GROUP)
    assert (await client.refusal(request)).code == 17


async def test_who_consumes_what(client: Client) -> None:
    await client.create_topic("Other")
    await commit(client, 1)
    await client.heartbeat(ALL, Subscription.of_tags("Other", "A", 1), group="online")

    async def groups_of(topic: str) -> list[str]:
        return GroupList.decode((await client.ask(TopicGroupsRequest(topic=topic))).body).group_list

    async def topics_of(group: str) -> list[str]:
        answer = await client.ask(GroupTopicsRequest(group=group))
        return TopicList.decode(answer.body).topic_list

    assert await groups_of(TOPIC) == [GROUP, "online"]
    assert await groups_of("Other") == ["online"]
    assert await groups_of("Unknown") == []
    assert (await topics_of(GROUP), await topics_of("online")) == ([TOPIC], [])

    async def subscription(topic: str) -> str | None:
        request = GroupSubscriptionRequest(group="online", topic=topic)
        found = GroupSubscription.decode((await client.ask(request)).body).subscription_data
        return None if found is None else found.sub_string

    assert await subscription("Other") == "A"
    assert await subscription("Unknown") is None


async def test_how_far_all_groups_of_a_topic_are(client: Client) -> None:
    async def ask(compare: str, left_out: str | None = None) -> dict[int, int]:
        request = CorrectionOffsetsRequest(
            topic=TOPIC, compare_group=compare, filter_groups=left_out
        )
        return CorrectionOffsets.decode((await client.ask(request)).body).correction_offsets

    assert await ask(GROUP) == {}
    for group, offsets in ((GROUP, (5, 1)), ("slow", (2, 3))):
        for queue_id, offset in enumerate(offsets):
            await commit(client, offset, queue_id, group=group)
    assert await ask("unknown") == {0: 2, 1: 1}
    assert await ask(GROUP, "slow") == {0: 5, 1: 1}
    assert await ask("slow", f"slow,{GROUP}") == {}
    assert await ask(GROUP, f"other,{GROUP}") == {0: 2, 1: (1 << 63) - 1}, "it is behind the rest"
    assert client.broker.offsets.get(GROUP, TOPIC, 0) == 5, "nothing is deleted"


async def test_all_offsets_at_once(client: Client) -> None:
    await commit(client, 5)
    await commit(client, 7, 2)
    table = ConsumerOffsetTable.decode((await client.ask(AllConsumerOffsetsRequest())).body)
    assert table.offset_table == {f"{TOPIC}@{GROUP}": {0: 5, 2: 7}}


async def test_how_far_delay_levels_have_delivered(client: Client, clock: VirtualClock) -> None:
    async def figures() -> tuple[dict[int, int], dict[str, str]]:
        offsets = DelayOffsets.decode((await client.ask(AllDelayOffsetsRequest())).body)
        runtime = KVTable.decode((await client.ask(RuntimeInfoRequest())).body).table
        shown = {k: v for k, v in runtime.items() if k.startswith("scheduleMessageOffset_")}
        return offsets.offset_table, shown

    assert await figures() == ({}, {})
    for _ in range(2):
        await client.send(properties=encode({"DELAY": "3"}))
    assert await figures() == ({3: 0}, {"scheduleMessageOffset_3": "0,2"})
    await clock.advance(11)
    while (await client.max_offset()) < 2:
        await clock.advance(1)
    await client.broker.store.checkpoint()
    assert await figures() == ({3: 2}, {"scheduleMessageOffset_3": "2,2"})
