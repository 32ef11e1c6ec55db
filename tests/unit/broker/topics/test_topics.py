from __future__ import annotations

from collections.abc import Callable

import pytest
from support.store.disks import refuse_changes

from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.topics.system_topics import system_topic_names, system_topics
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock

LONG = {"note": "x" * 100_000}


@pytest.fixture
def topics(metadata: Metadata, clock: VirtualClock) -> TopicTable:
    return TopicTable(metadata, clock)


def changes_of(topics: TopicTable) -> list[int]:
    """The versions of which somebody was told, as they come."""
    versions: list[int] = []
    topics.changed.add(lambda: versions.append(topics.version.counter))
    return versions


def test_every_change_has_a_version_and_is_told_once(topics: TopicTable) -> None:
    versions = changes_of(topics)
    topics.put(TopicConfig(topic_name="A"), TopicConfig(topic_name="B"))
    topics.put(TopicConfig(topic_name="A"))
    topics.put(TopicConfig(topic_name="A", perm=4))
    assert topics.remove("B")
    assert not topics.remove("B")
    assert versions == [1, 2, 3]
    assert (len(topics), "A" in topics, "B" in topics) == (1, True, False)


def test_topics_and_version_are_kept(
    topics: TopicTable, metadata: Metadata, clock: VirtualClock
) -> None:
    topics.put(TopicConfig(topic_name="A", read_queue_nums=3, order=True, attributes={"k": "v"}))
    again = TopicTable(metadata, clock)
    assert list(again) == list(topics)
    assert again.version == topics.version


def test_topics_of_groups_are_there_although_the_disk_is_full(
    topics: TopicTable, metadata: Metadata, clock: VirtualClock
) -> None:
    for table in ("topics", "state"):
        refuse_changes(metadata, table)
    versions = changes_of(topics)
    assert topics.create_for_group("%RETRY%a", 1).write_queue_nums == 1
    topics.create_for_groups({"%RETRY%b": 1, "%RETRY%c": 1})
    assert len(versions) == 2
    with pytest.raises(WriteFailedError):
        topics.save()
    for table in ("topics", "state"):
        metadata._db.execute(f"DROP TRIGGER refuse_{table}")
    assert topics.remove("%RETRY%c")
    topics.save()
    again = TopicTable(metadata, clock)
    assert {t.topic_name for t in again} == {t.topic_name for t in topics} >= {"%RETRY%a"}
    assert again.version == topics.version


def test_what_could_not_be_saved_did_not_happen(
    topics: TopicTable, metadata: Metadata, disk_full: Callable[[], None]
) -> None:
    """Else the next attempt would find the topic there and save nothing."""
    disk_full()
    versions = changes_of(topics)
    config = TopicConfig(topic_name="A", attributes=LONG)
    for _ in range(2):
        with pytest.raises(WriteFailedError, match="disk is full"):
            topics.put(config)
    assert topics.get("A") is None
    assert versions == []
    assert metadata.topics() == {}


@pytest.mark.parametrize(
    ("client", "model", "broker", "expected"),
    [(4, 8, 8, 4), (16, 8, 8, 8), (16, 8, 3, 3), (0, 8, 8, 1), (-1, 8, 8, 1)],
)
def test_a_topic_made_on_a_send_has_the_smallest_number(
    topics: TopicTable, client: int, model: int, broker: int, expected: int
) -> None:
    topics.put(TopicConfig(topic_name="TBW102", write_queue_nums=model, perm=7))
    config = topics.create_on_send("New", "TBW102", client, broker)
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (expected, expected, 6)


def test_only_topics_that_may_be_inherited_are_models(topics: TopicTable) -> None:
    topics.put(TopicConfig(topic_name="Plain", perm=6))
    assert topics.create_on_send("New", "Plain", 4, 8) is None
    assert topics.create_on_send("New", "Missing", 4, 8) is None
    assert "New" not in topics


def test_a_group_s_topic_is_made_once(topics: TopicTable) -> None:
    first = topics.create_for_group("%RETRY%g", 2)
    assert topics.create_for_group("%RETRY%g", 5) is first
    assert first.read_queue_nums == 2


def test_system_topics_follow_cluster_and_broker() -> None:
    topics = {
        t.topic_name: t for t in system_topics("C", "b", auto_create=True, default_queue_nums=8)
    }
    assert topics["TBW102"].write_queue_nums == 8
    assert topics["SCHEDULE_TOPIC_XXXX"].write_queue_nums == 18
    assert {"C", "b", "C_REPLY_TOPIC"} <= set(topics) <= system_topic_names("C", "b")
    without = system_topics("C", "b", auto_create=False, default_queue_nums=8)
    assert "TBW102" not in {t.topic_name for t in without}


def test_a_topic_that_the_metadata_forgot_is_gone_though_the_version_cannot_be_kept(
    topics: TopicTable, metadata: Metadata, refuse_state: Callable[[], None]
) -> None:
    """Else messages would be taken for a topic that the next start does not know."""
    topics.put(TopicConfig(topic_name="A"), TopicConfig(topic_name="B"))
    versions = changes_of(topics)
    metadata.delete_topic("A", [])
    refuse_state()
    with pytest.raises(WriteFailedError, match="disk is full"):
        topics.forget("A")
    assert "A" not in topics
    assert versions == [2]
    topics.forget("A")
    assert versions == [2]
