from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import HOST, open_store

from pocketmq.broker.appending.real_targets import RealTargets
from pocketmq.broker.appending.stored_message import StoredMessage, read_stored
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import encode_record
from pocketmq.runtime.live import Live
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
    groups = GroupTable(store.metadata, clock, Live(True))
    groups.find("alive")
    topics.put(TopicConfig(topic_name="Orders", read_queue_nums=2, write_queue_nums=2, perm=6))
    targets = RealTargets(store, store.metadata_gaps, topics, groups)
    found = targets.find(waiting(topic, queue_id))
    got = (found.topic, found.queue_id) if isinstance(found, QueueLog) else found
    assert got == expected
    await store.close()


async def test_what_the_metadata_may_have_lost_is_made_again(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    topics = TopicTable(store.metadata, clock)
    groups = GroupTable(store.metadata, clock, Live(True))
    targets = RealTargets(store, store.metadata_gaps, topics, groups)
    store.metadata_gaps.note_stop(clock.now_ms(), clock.now_ms(), lost_all=False)
    before, after = clock.now_ms(), clock.now_ms() + 1
    assert targets.find(waiting("Gone", "2", after)) == "its topic Gone was deleted meanwhile"
    for topic in ("Lost", "%RETRY%lost"):
        found = targets.find(waiting(topic, "2", before))
        assert isinstance(found, QueueLog)
        assert (found.topic, found.queue_id) == (topic, 2)
        config = topics.get(topic)
        assert config is not None
        assert config.write_queue_nums == 3
    await store.close()


def waiting(topic: str, queue_id: str, store_ms: int = 1) -> StoredMessage:
    """A message that waits for a topic."""
    record = encode_record(
        topic=b"waiting", queue_id=0, flag=0, queue_offset=0, physical_offset=0, sys_flag=0,
        born_timestamp=0, born_host=HOST, store_timestamp=store_ms, store_host=HOST,
        reconsume_times=0, prepared_transaction_offset=0, body=b"x",
        properties=props.encode({"REAL_TOPIC": topic, "REAL_QID": queue_id}).encode(),
    )  # fmt: skip
    return read_stored(record)
