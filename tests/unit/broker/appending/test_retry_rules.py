"""How often a message is handed out again, after which delays, and where it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import SMALL, open_store

from pocketmq.broker.appending.retry_rules import (
    dead_letter_topic,
    is_exhausted,
    retry_delay_level,
)
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.codes import Version
from pocketmq.testing.clock import VirtualClock

GROUP = GroupConfig(group_name="g", retry_max_times=2)


@pytest.mark.parametrize(
    ("version", "asked", "times", "exhausted"),
    [
        (Version.V3_4_9, None, 2, False),
        (Version.V3_4_9, None, 3, True),
        (Version.V3_4_9, 5, 5, False),
        (Version.V3_4_9, 5, 6, True),
        (Version.V3_4_9, 0, 1, True),
        (Version.V3_4_9 - 1, 5, 3, True),
    ],
)
def test_newer_consumers_overrule_their_group(
    version: int, asked: int | None, times: int, exhausted: bool
) -> None:
    assert is_exhausted(GROUP, version, asked, times) is exhausted


def test_each_retry_waits_a_level_longer_unless_the_consumer_says_otherwise() -> None:
    assert [retry_delay_level(0, times) for times in (1, 2, 3)] == [3, 4, 5]
    assert retry_delay_level(9, 2) == 9


async def test_a_dead_letter_topic_is_made_once(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock, SMALL)
    topics = TopicTable(store.metadata, clock)
    assert dead_letter_topic(topics, "g") == "%DLQ%g"
    made = topics.get("%DLQ%g")
    assert made is not None
    assert made.write_queue_nums == 1
    assert dead_letter_topic(topics, "g") == "%DLQ%g"
    assert topics.get("%DLQ%g") is made
    await store.close()
