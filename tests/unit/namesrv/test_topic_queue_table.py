from __future__ import annotations

import pytest

from pocketmq.namesrv import topic_queue_table
from pocketmq.namesrv.topic_queue_table import UNIT, UNIT_SUB, QueueCounts, TopicQueueTable
from pocketmq.protocol.bodies.topics import TopicQueueMapping
from pocketmq.protocol.errors import ResponseError


def counts(queues: int = 4, perm: int = 6, flag: int = 0) -> QueueCounts:
    return QueueCounts(queues, queues, perm, flag)


@pytest.fixture
def table() -> TopicQueueTable:
    table = TopicQueueTable()
    table.put("T1", "b", counts())
    table.put("T1", "a", counts(flag=UNIT))
    table.put("T2", "a", counts(flag=UNIT | UNIT_SUB))
    table.put("T3", "b", counts(flag=UNIT_SUB))
    return table


def test_queues_are_sorted_by_broker(table: TopicQueueTable) -> None:
    assert [q.broker_name for q in table.queues("T1")] == ["a", "b"]
    assert table.queues("unknown") == []


def test_the_same_again_is_no_change(table: TopicQueueTable) -> None:
    before = table.generation
    table.put("T1", "b", counts())
    assert table.generation == before
    table.put("T1", "b", counts(queues=8))
    assert table.generation == before + 1
    assert table.queues("T1")[1].read_queue_nums == 8


def test_topics_of_brokers_are_named_once(table: TopicQueueTable) -> None:
    assert sorted(table.topics_of(["a", "b", "unknown"])) == ["T1", "T2", "T3"]
    assert sorted(table.topics_of(["a"])) == ["T1", "T2"]


def test_a_topic_without_queues_vanishes_with_its_mappings(table: TopicQueueTable) -> None:
    table.put_mapping("T2", TopicQueueMapping(topic="T2", bname="a"))
    table.remove_broker("a")
    assert table.topics() == ["T1", "T3"]
    assert table.mappings("T2") is None
    assert table.topics_of(["a"]) == []


def test_a_mapping_of_an_unknown_topic_is_not_kept(table: TopicQueueTable) -> None:
    table.put_mapping("unknown", TopicQueueMapping(topic="unknown", bname="a"))
    assert table.mappings("unknown") is None


def test_removing_what_is_not_there_changes_nothing(table: TopicQueueTable) -> None:
    before = table.generation
    table.remove_broker("unknown")
    table.remove_topic("unknown")
    table.remove_topic("T2", ["b"])
    assert table.generation == before


def test_permissions_change_for_one_broker_only(table: TopicQueueTable) -> None:
    assert table.change_perm("a", lambda perm: perm & ~2) == 2
    assert [q.perm for q in table.queues("T1")] == [4, 6]
    assert table.change_perm("unknown", lambda perm: perm) == 0


def test_flags_are_read_from_the_first_broker(table: TopicQueueTable) -> None:
    assert table.topics_with_flags(UNIT) == ["T2"]
    assert table.topics_with_flags(UNIT_SUB) == ["T2", "T3"]
    assert table.topics_with_flags(UNIT_SUB, absent=UNIT) == ["T3"]


def test_the_number_of_topics_is_bounded(
    table: TopicQueueTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_queue_table, "TOPICS_MAX", 4)
    table.check_room(["T1", "T2", "T4"])
    with pytest.raises(ResponseError, match="more than 4 topics"):
        table.check_room(["T1", "T4", "T5"])
