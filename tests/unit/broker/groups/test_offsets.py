from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from pocketmq.broker.groups.offsets import (
    OFFSET_MAX,
    SAVED_PER_TURN_MAX,
    ConsumerOffsets,
    is_offset,
)
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.testing.clock import VirtualClock, settle


@pytest.fixture
def offsets(metadata: Metadata) -> ConsumerOffsets:
    return ConsumerOffsets(metadata)


def test_commits_are_in_memory_until_they_are_saved(
    offsets: ConsumerOffsets, metadata: Metadata
) -> None:
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 0, 7)
    assert offsets.get("g", "T", 0) == 7
    assert metadata.consumer_offsets() == []
    offsets.save()
    assert metadata.consumer_offsets() == [("g", "T", 0, 7)]
    assert ConsumerOffsets(metadata).get("g", "T", 0) == 7
    assert offsets.get("g", "T", 1) is None
    assert offsets.get("h", "T", 0) is None


def test_going_back_is_taken_and_logged(
    offsets: ConsumerOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    offsets.commit("g", "T", 3, 7)
    offsets.commit("g", "T", 3, 2)
    assert offsets.get("g", "T", 3) == 2
    assert "group g goes back in T queue 3 from 7 to 2" in caplog.text


def test_only_what_changed_is_saved(offsets: ConsumerOffsets, metadata: Metadata) -> None:
    offsets.commit("g", "T", 0, 5)
    offsets.save()
    metadata.save_consumer_offsets([("g", "T", 0, 99)])
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "T", 1, 1)
    offsets.save()
    assert sorted(metadata.consumer_offsets()) == [("g", "T", 0, 99), ("g", "T", 1, 1)]


def test_what_could_not_be_saved_is_saved_the_next_time(
    offsets: ConsumerOffsets, metadata: Metadata, disk_full: Callable[[], None]
) -> None:
    disk_full()
    for queue_id in range(1000):
        offsets.commit("g" * 100, "T", queue_id, 1)
    with pytest.raises(WriteFailedError):
        offsets.save()
    metadata._db.execute("PRAGMA max_page_count=100000")
    offsets.save()
    assert len(metadata.consumer_offsets()) == 1000


async def test_many_are_saved_a_part_in_each_turn(
    offsets: ConsumerOffsets, metadata: Metadata, clock: VirtualClock
) -> None:
    for queue_id in range(2 * SAVED_PER_TURN_MAX):
        offsets.commit("g", "T", queue_id, 1)
    saving = asyncio.ensure_future(offsets.save_in_slices(clock))
    await settle(1)
    assert len(metadata.consumer_offsets()) == SAVED_PER_TURN_MAX
    offsets.commit("g", "U", 0, 1)  # for the next time
    offsets.remove_topic("T")
    await saving
    assert len(metadata.consumer_offsets()) == SAVED_PER_TURN_MAX, "what is gone is not saved"
    offsets.save()
    assert ("g", "U", 0, 1) in metadata.consumer_offsets()


def test_removed_topics_and_groups_are_not_saved_again(
    offsets: ConsumerOffsets, metadata: Metadata
) -> None:
    for group in ("g", "h"):
        for topic in ("T", "U"):
            offsets.commit(group, topic, 0, 1)
    assert offsets.topics_of("g") == {"T", "U"}
    assert offsets.groups_of("T") == {"g", "h"}
    offsets.remove_topic("T")
    offsets.remove_group("h")
    offsets.save()
    assert metadata.consumer_offsets() == [("g", "U", 0, 1)]
    assert offsets.get("g", "T", 0) is None


@pytest.mark.parametrize(
    ("queue_id", "offset", "expected"),
    [
        (0, 0, True),
        (65535, OFFSET_MAX, True),
        (-1, 0, False),
        (65536, 0, False),
        (0, -1, False),
        (0, OFFSET_MAX + 1, False),
    ],
)
def test_what_can_be_an_offset(queue_id: int, offset: int, expected: bool) -> None:
    assert is_offset(queue_id, offset) == expected


def test_a_reset_is_saved_at_once_and_told_once(
    offsets: ConsumerOffsets, metadata: Metadata
) -> None:
    offsets.commit("g", "T", 0, 5)
    offsets.reset("g", "T", {0: 2, 1: 9})
    assert sorted(metadata.consumer_offsets()) == [("g", "T", 0, 2), ("g", "T", 1, 9)]
    assert not offsets.commit("g", "T", 0, 6), "its consumer does not know yet"
    assert offsets.commit("h", "T", 0, 6)
    assert offsets.get("g", "T", 0) == 2
    assert offsets.take_reset("g", "T", 0) == 2
    assert offsets.take_reset("g", "T", 0) is None
    assert offsets.commit("g", "T", 0, 3)
    assert offsets.get("g", "T", 0) == 3
    offsets.remove_topic("T")
    assert offsets.take_reset("g", "T", 1) is None


def test_a_reset_that_could_not_be_saved_did_not_happen(
    offsets: ConsumerOffsets, disk_full: Callable[[], None]
) -> None:
    offsets.commit("g", "T", 0, 5)
    disk_full()
    with pytest.raises(WriteFailedError):
        offsets.reset("g" * 100, "T", dict.fromkeys(range(1000), 1))
    assert not offsets.resets
    assert offsets.get("g" * 100, "T", 0) is None


def test_a_group_is_put_where_another_stands(offsets: ConsumerOffsets, metadata: Metadata) -> None:
    offsets.commit("g", "T", 0, 5)
    offsets.commit("g", "U", 0, 7)
    offsets.commit("h", "T", 0, 1)
    offsets.clone("g", "h", "T")
    offsets.clone("nobody", "h", "T")
    assert offsets.get("h", "T", 0) == 5
    assert offsets.get("h", "U", 0) is None
    assert ("h", "T", 0, 5) in metadata.consumer_offsets()
    offsets.remove_group("h")
    assert sorted((g, t) for g, t, _ in offsets) == [("g", "T"), ("g", "U")]


def test_groups_behind_the_end_of_a_queue_go_back_for_good(metadata: Metadata) -> None:
    offsets = ConsumerOffsets(metadata)
    for queue_id, offset in enumerate((7, 5, 9)):
        offsets.commit("g", "T", queue_id, offset)
    offsets.save()
    offsets.bring_back(lambda _, queue_id: (6, 5, None)[queue_id], lambda *_: 0)
    for again in (offsets, ConsumerOffsets(metadata)):
        assert [again.get("g", "T", queue_id) for queue_id in range(3)] == [6, 5, 9]
