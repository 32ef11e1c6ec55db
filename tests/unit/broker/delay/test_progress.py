from __future__ import annotations

from pathlib import Path

from support.store.stores import open_store, put

from pocketmq.broker.delay.progress import STEPS_MAX, Progress
from pocketmq.testing.clock import VirtualClock


async def test_only_what_is_on_the_disk_counts(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"a")
    put(store, b"b", queue_id=1)
    first, second = store.queue_log("Orders", 0), store.queue_log("Orders", 1)
    progress = Progress(5)
    progress.note(6, {first: first.end_position})
    progress.note(8, {first: first.end_position, second: second.end_position})
    progress.note(9, {})
    assert (progress.advance(), progress.waiting) == (5, 3)
    first.synced_position = first.end_position
    assert (progress.advance(), progress.waiting) == (6, 2)
    second.synced_position = second.end_position - 1
    assert progress.advance() == 6
    second.synced_position = second.end_position
    assert (progress.advance(), progress.waiting) == (9, 0)
    await store.close()


async def test_copies_in_a_deleted_topic_hold_nothing_up(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"a")
    queue_log = store.queue_log("Orders", 0)
    progress = Progress(0)
    progress.note(1, {queue_log: queue_log.end_position})
    assert progress.advance() == 0
    await store.delete_topic("Orders")
    assert progress.advance() == 1
    await store.close()


async def test_many_steps_are_joined(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"a")
    queue_log = store.queue_log("Orders", 0)
    progress = Progress(0)
    for offset in range(1, 3 * STEPS_MAX):
        progress.note(offset, {queue_log: offset})
    assert progress.waiting == STEPS_MAX
    queue_log.synced_position = 3 * STEPS_MAX - 2
    assert progress.advance() == STEPS_MAX - 1, "a joined step waits for all of it"
    queue_log.synced_position = 3 * STEPS_MAX - 1
    assert progress.advance() == 3 * STEPS_MAX - 1
    await store.close()
