from __future__ import annotations

from pathlib import Path

from support.store.stores import TOPIC, open_store, put

from pocketmq.broker.groups.hidden_queues import HiddenQueue, hidden_queues, warning_of
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock


async def test_queues_with_messages_behind_the_read_queues_are_named(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path, clock)
    offsets = ConsumerOffsets(store.metadata)
    for queue_id in (0, 1, 3):
        put(store, b"x", b"y", queue_id=queue_id)
    offsets.commit("done", TOPIC, 3, 2)
    offsets.commit("half", TOPIC, 3, 1)
    offsets.commit("ahead", TOPIC, 3, 9)
    topic = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
    hidden = hidden_queues(topic, store, offsets)
    everything = {"done": 2, "half": 2, "ahead": 2}
    assert hidden == [HiddenQueue(1, 2, everything), HiddenQueue(3, 2, {"half": 1})]
    assert "queue 3 holds 2 messages, unread 1 by half" in warning_of(topic, hidden)
    topic = TopicConfig(topic_name=TOPIC, read_queue_nums=4, write_queue_nums=1)
    assert hidden_queues(topic, store, offsets) == []
    assert warning_of(topic, []) == ""
    await store.close()
