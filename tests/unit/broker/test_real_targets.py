from __future__ import annotations

from pathlib import Path

import pytest
from unit.broker.store.stores import open_store

from pocketmq.broker.groups import GroupTable
from pocketmq.broker.real_targets import RealTargets
from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.broker.topics import TopicTable
from pocketmq.protocol import properties as props
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock


@pytest.mark.parametrize(
    ("topic", "queue_id", "expected"),
    [
        ("Orders", "1", ("Orders", 1)),
        ("Orders", "5", ("Orders", 1)),
        ("%RETRY%alive", "0", ("%RETRY%alive", 0)),
        ("%RETRY%gone", "0", "its topic %RETRY%gone was deleted meanwhile"),
        ("Gone", "0", "its topic Gone was deleted meanwhile"),
        ("Orders", "x", "it names no topic"),
        ("Orders", "²", "it names no topic"),
        ("", "1", "it names no topic"),
    ],
)
async def test_where_messages_go(
    tmp_path: Path, clock: VirtualClock, topic: str, queue_id: str, expected: object
) -> None:
    store = open_store(tmp_path / "data", clock)
    topics = TopicTable(store.metadata, clock)
    groups = GroupTable(store.metadata, clock, auto_create=True)
    groups.find("alive")
    topics.put(TopicConfig(topic_name="Orders", read_queue_nums=2, write_queue_nums=2, perm=6))
    found = RealTargets(store, topics, groups).find(
        props.encode({"REAL_TOPIC": topic, "REAL_QID": queue_id})
    )
    got = (found.topic, found.queue_id) if isinstance(found, QueueLog) else found
    assert got == expected
    await store.close()
