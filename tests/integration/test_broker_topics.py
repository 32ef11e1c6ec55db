"""Topics and groups by hand: created, changed, expanded, shrunk, deleted, listed, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage, send_request
from support.store.disks import refuse_changes

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.protocol.bodies.clients import GroupConfig, GroupConfigTable
from pocketmq.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
    TopicList,
)
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.brokers import BrokerSystemTopicsRequest
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.topics import (
    AllGroupConfigRequest,
    AllTopicConfigRequest,
    CreateTopicListRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    GroupConfigRequest,
    TopicConfigRequest,
    TopicStatsRequest,
    UpdateGroupRequest,
)
from pocketmq.testing.clock import START_MS, VirtualClock


@pytest_asyncio.fixture
async def client(stage: Stage) -> Client:
    return await stage.start()


async def config_of(client: Client, topic: str = TOPIC) -> TopicConfig:
    return TopicConfig.decode((await client.ask(TopicConfigRequest(topic=topic))).body)


async def all_topics(client: Client) -> TopicConfigTable:
    return TopicConfigTable.decode((await client.ask(AllTopicConfigRequest())).body)


# -- what there is from the start ---------------------------------------------------------------


@pytest.mark.parametrize("auto_create", [True, False])
async def test_every_broker_has_its_system_topics(stage: Stage, auto_create: bool) -> None:
    client = await stage.start(auto_create_topic_enable=auto_create, default_topic_queue_nums=8)
    table = (await all_topics(client)).topic_config_table
    shown = {t.topic_name: (t.read_queue_nums, t.write_queue_nums, t.perm) for t in table.values()}
    expected = {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "BenchmarkTest": (1024, 1024, 6),
        "DefaultCluster": (16, 16, 7),
        "broker-a": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "rmq_sys_wheel_timer": (1, 1, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 1, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
    }
    assert shown == expected | ({"TBW102": (8, 8, 7)} if auto_create else {})
    assert all(name == topic.topic_name for name, topic in table.items())


# -- created and changed ------------------------------------------------------------------------


async def test_a_topic_is_created_as_asked(client: Client) -> None:
    await client.create_topic(read=3, write=5, perm=6, order=True, topic_sys_flag=2,
                              attributes="+message.type=NORMAL,+reserve.time=7")  # fmt: skip
    topic = await config_of(client)
    assert topic == TopicConfig(
        topic_name=TOPIC,
        read_queue_nums=3,
        write_queue_nums=5,
        perm=6,
        order=True,
        topic_sys_flag=2,
        attributes={"message.type": "NORMAL", "reserve.time": "7"},
    )
    assert (await all_topics(client)).topic_config_table[TOPIC] == topic


async def test_a_change_makes_a_new_version_and_no_change_none(
    client: Client, clock: VirtualClock
) -> None:
    before = (await all_topics(client)).data_version
    await client.create_topic()
    created = (await all_topics(client)).data_version
    assert created.counter == before.counter + 1
    await clock.advance(1)
    await client.create_topic()
    assert (await all_topics(client)).data_version == created
    await client.create_topic(perm=4)
    changed = (await all_topics(client)).data_version
    assert (changed.counter, changed.timestamp) == (created.counter + 1, START_MS + 1000)


async def test_attributes_are_added_and_taken_away(client: Client) -> None:
    for text, attributes in (
        ("+reserve.time=1,+message.type=FIFO", {"reserve.time": "1", "message.type": "FIFO"}),
        (None, {"reserve.time": "1", "message.type": "FIFO"}),
        ("+reserve.time=3, -message.type", {"reserve.time": "3"}),
        ("", {"reserve.time": "3"}),
    ):
        await client.create_topic(attributes=text)
        assert (await config_of(client)).attributes == attributes
    for text in ("a=1", "+a", "-a=1", "+=1", "-", "+a=1,,b"):
        code, remark = await client.refusal(request_for(attributes=text))
        assert code == 29
        assert "neither +key=value nor -key" in remark
    for text, words in (
        ("+nonsense=1", "unsupported key: nonsense"),
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
        ("+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
    ):
        code, remark = await client.refusal(request_for(attributes=text))
        assert (code, remark.startswith(words)) == (1, True)
    assert (await config_of(client)).attributes == {"reserve.time": "3"}


def request_for(topic: str = TOPIC, **fields: Any) -> CreateTopicRequest:
    given: dict[str, Any] = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6}
    return CreateTopicRequest(topic=topic, **(given | fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"topic": ""}, "blank"),
        ({"topic": "a b"}, "illegal characters"),
        ({"topic": ".."}, "illegal characters"),
        ({"topic": "t" * 128}, "max length: 127"),
        ({"topic": "TBW102"}, "conflict with system topic"),
        ({"topic": "DefaultCluster"}, "conflict with system topic"),
        ({"topic": "broker-a"}, "conflict with system topic"),
        ({"topic": "rmq_sys_anything"}, "conflict with system topic"),
        ({"read_queue_nums": -1}, "readQueueNums is -1"),
        ({"write_queue_nums": 65537}, "writeQueueNums is 65537"),
        ({"read_queue_nums": 0, "write_queue_nums": 0}, "no queue would be left"),
        ({"perm": 8}, "perm is 8"),
        ({"perm": -1}, "perm is -1"),
    ],
)
async def test_what_no_topic_can_be_is_refused(
    client: Client, fields: dict[str, Any], reason: str
) -> None:
    before = await all_topics(client)
    code, remark = await client.refusal(request_for(**fields))
    assert code == 29
    assert reason in remark
    assert await all_topics(client) == before


async def test_unknown_topics_have_no_settings_and_no_figures(client: Client) -> None:
    for request in (TopicConfigRequest(topic="Unknown"), TopicStatsRequest(topic="Unknown")):
        code, remark = await client.refusal(request)
        assert code == 17
        assert "`pocketmq topic create Unknown`" in remark


async def test_a_list_of_topics_is_made_or_changed_as_a_whole(client: Client) -> None:
    await client.create_topic("Old", attributes="+message.type=FIFO,+reserve.time=2")
    old = TopicConfig(topic_name="Old", read_queue_nums=1, write_queue_nums=2, perm=4,
                      attributes={"-message.type": "", "+reserve.time": "3"})  # fmt: skip
    new = TopicConfig(topic_name="New", order=True)
    body = TopicConfigList(topic_config_list=[old, new]).encode()
    await client.ask(CreateTopicListRequest(), body)
    config = await config_of(client, "Old")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 2, 4)
    assert config.attributes == {"reserve.time": "3"}
    assert (await config_of(client, "New")).order
    before = await all_topics(client)
    for wrong in (
        TopicConfig(topic_name="bad name"),
        TopicConfig(topic_name="TBW102"),
        TopicConfig(topic_name="Other", perm=9),
        TopicConfig(topic_name="Other", read_queue_nums=-1),
        TopicConfig(topic_name="Other", attributes={"+": "1"}),
    ):
        body = TopicConfigList(topic_config_list=[TopicConfig(topic_name="Third"), wrong]).encode()
        assert (await client.refusal(CreateTopicListRequest(), body)).code == 29
    assert (await client.refusal(CreateTopicListRequest(), b"nonsense")).code == 1
    assert await all_topics(client) == before


async def test_the_broker_names_its_own_topics(client: Client) -> None:
    answer = await client.ask(BrokerSystemTopicsRequest())
    listed = set(TopicList.decode(answer.body).topic_list)
    assert {*names.SYSTEM_TOPICS, "DefaultCluster", "broker-a"} <= listed
    await client.create_topic()
    assert TOPIC not in listed


# -- expanded and shrunk ------------------------------------------------------------------------


async def test_a_topic_grows(client: Client) -> None:
    await client.create_topic(read=2, write=2)
    assert (await client.refusal(send_request(queue_id=3), b"x")).code == 29
    await client.create_topic(read=4, write=2)
    assert (await client.pull(queue_id=3)).code == 19, "first the consumers"
    await client.create_topic(read=4, write=4)
    await client.send(b"new", queue_id=3)
    assert (await client.pull(queue_id=3)).bodies == [b"new"]


async def test_a_topic_shrinks_and_nothing_is_lost(client: Client, clock: VirtualClock) -> None:
    await client.create_topic(read=4, write=4)
    for queue_id in range(4):
        await client.send(b"%d" % queue_id, queue_id=queue_id)
    await clock.advance(1)
    await client.create_topic(read=4, write=2)
    assert (await client.pull(queue_id=3)).bodies == [b"3"], "consumers drain what is there"
    await client.create_topic(read=2, write=2)
    assert (await client.refusal(send_request(queue_id=3), b"x")).code == 29
    stats = await client.stats()
    assert {q: (o.min_offset, o.max_offset) for q, o in stats.items()} == dict.fromkeys(
        range(4), (0, 1)
    ), "also queues beyond the counts are shown while they hold messages"
    await client.create_topic(read=4, write=2)
    assert (await client.pull(queue_id=3)).bodies == [b"3"]


async def test_the_two_counts_are_apart(client: Client) -> None:
    await client.create_topic(read=8, write=2)
    assert (await client.pull(queue_id=7)).code == 19
    await client.create_topic(read=0, write=3)
    await client.send(queue_id=2)
    assert (await client.stats()).keys() == {0, 1, 2}


async def test_the_figures_of_a_topic(client: Client, clock: VirtualClock) -> None:
    await client.create_topic(read=2, write=3)
    await clock.advance(1)
    await client.send(queue_id=1)
    await clock.advance(1)
    await client.send(queue_id=1)
    stats = await client.stats()
    assert {q: (o.min_offset, o.max_offset, o.last_update_timestamp) for q, o in stats.items()} == {
        0: (0, 0, 0),
        1: (0, 2, START_MS + 2000),
        2: (0, 0, 0),
    }


async def test_files_are_only_made_for_queues_that_were_written_to(client: Client) -> None:
    queues = client.broker.store.logs.root
    await client.create_topic(read=100, write=100)
    for queue_id in range(100):
        assert (await client.pull(queue_id=queue_id)).code == 19
    assert not queues.exists()
    await client.send(queue_id=42)
    assert [p.name for p in (queues / TOPIC).iterdir()] == ["42"]


async def test_topics_and_messages_outlive_a_restart(stage: Stage) -> None:
    client = await stage.start()
    await client.create_topic(read=3, write=5, attributes="+reserve.time=5")
    await client.send(b"kept", queue_id=4)
    before = await all_topics(client)
    await client.broker.close()
    client = await stage.start()
    assert await all_topics(client) == before
    await client.create_topic(read=5, write=5)
    assert (await client.pull(queue_id=4)).bodies == [b"kept"]


# -- deleted ------------------------------------------------------------------------------------


async def test_a_deleted_topic_leaves_nothing(client: Client) -> None:
    await client.create_topic()
    await client.create_topic("TopicTest2")
    await client.send(b"gone", queue_id=1)
    await client.send(b"kept", topic="TopicTest2")
    client.make_group()
    await client.ask(
        UpdateConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=1, commit_offset=1)
    )
    held = [await client.hold(queue_id=0), await client.hold(1, queue_id=1)]
    other = await client.hold(1, topic="TopicTest2")
    await client.ask(DeleteTopicRequest(topic=TOPIC))
    assert [(await task).code for task in held] == [19, 19], "held pulls are answered"
    assert not other.done()
    assert TOPIC not in (await all_topics(client)).topic_config_table
    assert not (client.broker.store.logs.root / TOPIC).exists()
    await client.create_topic()
    assert await client.max_offset(1) == 0
    assert (await client.pull(queue_id=1)).found == (19, 0)
    query = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=1)
    assert (await client.ask(query)).read(OffsetResponse).offset == 0
    assert (await client.send(b"anew", queue_id=1)).queue_offset == 0
    assert (await client.pull(topic="TopicTest2")).bodies == [b"kept"]


async def test_a_deleted_topic_is_gone_though_not_all_of_it_can_be_written(client: Client) -> None:
    """The logs go first; what cannot be written afterwards must not keep the topic."""
    await client.create_topic()
    await client.send(b"gone")
    store = client.broker.store
    store.damaged.record(TOPIC, 3, FormatError(Path("3.log"), "it is torn"))
    held = await client.hold(1)
    refuse_changes(store.metadata, "state")
    _, remark = await client.refusal(DeleteTopicRequest(topic=TOPIC))
    assert "disk is full" in remark
    assert TOPIC not in client.broker.topics
    assert len(store.damaged) == 0
    await store.deleted_files_gone()
    assert not (store.logs.root / TOPIC).exists()
    assert (await held).code == 19
    await client.ask(DeleteTopicRequest(topic=TOPIC))


async def test_deleting_what_is_not_there_is_no_error(client: Client) -> None:
    before = await all_topics(client)
    await client.ask(DeleteTopicRequest(topic="Unknown"))
    assert await all_topics(client) == before


@pytest.mark.parametrize(
    "topic", ["", " ", *sorted(names.SYSTEM_TOPICS), "DefaultCluster", "broker-a", "rmq_sys_x"]
)
async def test_the_broker_s_own_topics_stay(client: Client, topic: str) -> None:
    before = await all_topics(client)
    code, remark = await client.refusal(DeleteTopicRequest(topic=topic))
    assert code == 29
    assert "blank" in remark or "conflict with system topic" in remark
    assert await all_topics(client) == before


async def test_a_name_that_is_a_path_deletes_nothing(client: Client, tmp_path: Path) -> None:
    await client.create_topic()
    await client.send(b"kept")
    empty = tmp_path / "empty"
    empty.mkdir()
    for topic in ("..", ".", "a/b", str(empty), "../../empty"):
        await client.ask(DeleteTopicRequest(topic=topic))
    code, remark = await client.refusal(DeleteTopicRequest(topic=" "))
    assert (code, remark) == (29, "The specified topic is blank.")
    assert empty.exists()
    assert (await client.pull()).bodies == [b"kept"]


# -- groups --------------------------------------------------------------------------------------


async def test_groups_are_created_changed_and_listed(stage: Stage) -> None:
    client = await stage.start()

    async def table() -> GroupConfigTable:
        return GroupConfigTable.decode((await client.ask(AllGroupConfigRequest())).body)

    before = await table()
    assert {"TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"} <= before.subscription_group_table.keys()
    config = GroupConfig(group_name=GROUP, retry_max_times=3, consume_enable=False)
    await client.ask(UpdateGroupRequest(), config.encode())
    after = await table()
    assert after.subscription_group_table == before.subscription_group_table | {GROUP: config}
    assert after.data_version.counter == before.data_version.counter + 1
    code, remark = await client.refusal(
        UpdateGroupRequest(), GroupConfig(group_name="bad name").encode()
    )
    assert code == 29
    assert "illegal characters" in remark
    await client.broker.close()
    client = await stage.start()
    answer = await client.ask(GroupConfigRequest(group=GROUP))
    assert GroupConfig.decode(answer.body) == config


async def test_unknown_groups_have_settings_only_if_they_can_be_made(stage: Stage) -> None:
    client = await stage.start(auto_create_subscription_group=False)
    assert (await client.refusal(GroupConfigRequest(group="new"))).code == 26
    assert (await client.refusal(GroupConfigRequest(group="bad name"))).code == 26
