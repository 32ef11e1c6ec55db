from __future__ import annotations

import pytest

from pocketmq.broker.store.kept import Kept
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.topics.kept_topics import HOUR_MS, KeptTopics, kept_of
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock


def topic(name: str, **attributes: str) -> TopicConfig:
    names = {"hours": "reserve.time", "size": "pocketmq.retention.bytes", "type": "message.type"}
    given = {names[key]: value for key, value in attributes.items()}
    return TopicConfig(topic_name=name, attributes=given)


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (topic("T"), Kept()),
        (topic("T", type="FIFO"), Kept()),
        (topic("T", hours="3"), Kept(time_ms=3 * HOUR_MS)),
        (topic("T", hours="-1", size="-1"), Kept()),
        (topic("T", hours="0", size="0"), Kept()),
        (topic("T", size="1000"), Kept(size=1000)),
        (topic("T", hours="9223372036854775807"), Kept(time_ms=9223372036854775807 * HOUR_MS)),
    ],
)
def test_attributes_say_what_is_kept(config: TopicConfig, kept: Kept) -> None:
    assert kept_of(config) == kept


@pytest.fixture
def topics(metadata: Metadata, clock: VirtualClock) -> TopicTable:
    return TopicTable(metadata, clock)


def test_changes_of_topics_are_followed(topics: TopicTable) -> None:
    topics.put(topic("Old", size="7"))
    kept_topics = KeptTopics(topics)
    first = kept_topics.now()
    assert first == {"Old": Kept(size=7)}
    topics.put(topic("Plain"), topic("Fifo", type="FIFO"))
    assert kept_topics.now() is first, "nothing that concerns it has changed"
    topics.put(topic("New", hours="1"), topic("Plain", hours="2"))
    assert kept_topics.now() == {
        "Old": Kept(size=7), "New": Kept(HOUR_MS), "Plain": Kept(2 * HOUR_MS),
    }  # fmt: skip
    topics.put(topic("Plain"))
    topics.remove("Old")
    assert kept_topics.now() == {"New": Kept(HOUR_MS)}
    assert first == {"Old": Kept(size=7)}, "who has an earlier mapping sees no change of it"


def test_a_table_that_was_read_again_is_followed(topics: TopicTable) -> None:
    kept_topics = KeptTopics(topics)
    topics.put(topic("A", hours="1"))
    topics.renew_version()
    topics.load()
    assert kept_topics.now() == {"A": Kept(HOUR_MS)}
