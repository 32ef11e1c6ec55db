from __future__ import annotations

from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.metadata.log_table import KnownLog, LogTable


def table_of(*logs: tuple[str, int]) -> LogTable:
    """Logs numbered from 1 on."""
    table = LogTable()
    for number, (topic, queue_id) in enumerate(logs, 1):
        table.enter(topic, queue_id, number, Checkpoint(number, number, number))
    return table


def test_logs_are_found_by_queue_and_by_number() -> None:
    table = table_of(("A", 1), ("A", 0), ("B", 0))
    assert table.get("A", 0) == table.by_number(2) == KnownLog("A", 0, 2, Checkpoint(2, 2, 2))
    assert table.get("A", 2) is table.get("C", 0) is table.by_number(4) is None
    assert table.queue_ids("A") == [0, 1]
    assert table.queue_ids("C") == []
    assert table.topics() == ["A", "B"]


def test_a_removed_topic_leaves_nothing_behind() -> None:
    table = table_of(("A", 0), ("B", 0), ("A", 1))
    assert [known.number for known in table.remove_topic("A")] == [1, 3]
    assert table.remove_topic("A") == []
    assert [known.topic for known in table] == ["B"]
    assert len(table) == 1
    assert table.get("A", 0) is table.by_number(1) is None


def test_new_logs_are_told_of_once() -> None:
    table = table_of(("A", 0), ("B", 0))
    assert table.take_new() == [1, 2]
    assert table.take_new() == []


def test_the_queues_of_a_topic_share_its_name() -> None:
    """A name for each of 40,000 queues would take megabytes."""
    table = LogTable()
    for queue_id in range(2):
        table.enter("".join(["Top", "ic"]), queue_id, queue_id, None)
    first, second = table
    assert first.topic is second.topic
