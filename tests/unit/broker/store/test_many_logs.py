"""Queues that rest cost nothing: no log of theirs is opened, synced or looked at."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.store.disks import FailingFiles
from support.store.stores import (
    SMALL,
    TOPIC,
    abandon,
    assert_sound,
    bodies,
    open_store,
    put,
    queue_directory,
)

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.log_checks import RETRY_PERIOD_S
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock, settle

QUEUES = 20
HOUR_MS = 3_600_000


class SyncedFiles(FailingFiles):
    """Notes of which queues a file was brought to the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[int] = set()

    def sync(self, path: Path) -> None:
        self.synced.add(int(path.parent.name))
        super().sync(path)


def fill(store: MessageStore) -> None:
    for queue_id in range(QUEUES):
        put(store, b"%d" % queue_id, queue_id=queue_id)


def opened(store: MessageStore) -> list[int]:
    return [queue_log.queue_id for queue_log in store.logs.open_logs()]


async def test_after_a_clean_stop_no_log_is_opened_by_itself(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    fill(store)
    await store.close()
    store = open_store(data, clock)
    await Retention(store, Live(HOUR_MS)).run()
    await KeyIndex(store).run()
    await store.checkpoint()
    assert opened(store) == []
    assert bodies(store, queue_id=7) == [b"7"]
    assert opened(store) == [7]
    await store.close()


async def test_after_a_kill_only_logs_that_grew_are_opened(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    fill(store)
    await store.checkpoint()
    put(store, b"more", queue_id=3)
    put(store, b"new", queue_id=QUEUES)
    abandon(store)
    store = open_store(data, clock)
    assert not store.was_clean
    assert store.log_checks.finish()
    assert sorted(opened(store)) == [3, QUEUES]
    assert bodies(store, queue_id=3) == [b"3", b"more"]
    assert bodies(store, queue_id=4) == [b"4"]
    await store.close()


async def grown(data: Path, clock: VirtualClock) -> MessageStore:
    """A store that was killed after all its queues had grown, and is open again."""
    store = open_store(data, clock)
    fill(store)
    await store.checkpoint()
    for queue_id in range(QUEUES):
        put(store, b"more", queue_id=queue_id)
    abandon(store)
    return open_store(data, clock)


async def test_after_a_kill_a_log_is_recovered_when_it_is_asked_for(
    data: Path, clock: VirtualClock
) -> None:
    store = await grown(data, clock)
    newest = QUEUES - 1
    assert opened(store) == [newest]
    assert bodies(store, queue_id=3) == [b"3", b"more"]
    assert store.end_offset(TOPIC, 5) == 2
    assert not store.logs.is_at_rest(next(log for log in store.logs.table if log.queue_id == 6))
    put(store, b"behind", queue_id=7)
    assert bodies(store, queue_id=7) == [b"7", b"more", b"behind"]
    assert sorted(opened(store)) == [3, 5, 6, 7, newest]
    assert store.logs.ends(TOPIC) == dict.fromkeys(range(QUEUES), 2) | {7: 3}
    assert not store.logs.unchecked
    await store.close()
    assert_sound(data)


async def test_after_a_kill_all_logs_are_recovered_one_after_the_other(
    data: Path, clock: VirtualClock
) -> None:
    store = await grown(data, clock)
    await store.log_checks.run()
    assert sorted(opened(store)) == list(range(QUEUES))
    await store.checkpoint()
    assert all(row.checkpoint.offset == 2 for row in store.metadata.queue_logs())
    await store.close()


async def test_a_stop_before_all_logs_are_checked_is_clean(data: Path, clock: VirtualClock) -> None:
    store = await grown(data, clock)
    await store.close()
    store = open_store(data, clock)
    assert store.was_clean
    assert all(store.end_offset(TOPIC, queue_id) == 2 for queue_id in range(QUEUES))
    await store.close()
    assert_sound(data)


async def test_a_kill_before_all_logs_are_checked_loses_nothing(
    data: Path, clock: VirtualClock
) -> None:
    store = await grown(data, clock)
    put(store, b"behind", queue_id=3)
    await store.checkpoint()
    abandon(store)
    store = open_store(data, clock)
    assert bodies(store, queue_id=3) == [b"3", b"more", b"behind"]
    assert bodies(store, queue_id=4) == [b"4", b"more"]
    await store.close()
    assert_sound(data)


async def test_a_log_that_cannot_be_read_now_is_tried_again(
    data: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    abandon(await grown(data, clock))
    store = open_store(data, clock, files=(files := FailingFiles()))
    files.fail_after(0, failures=None)
    checks = asyncio.ensure_future(store.log_checks.run())
    await settle()
    assert store.end_offset(TOPIC, 4) is None
    assert caplog.text.count("queue 4 cannot be read: [Errno 28] No space left on device") == 1
    files.heal()
    await clock.advance(RETRY_PERIOD_S)
    await checks
    assert all(bodies(store, queue_id=q) == [b"%d" % q, b"more"] for q in range(QUEUES))
    await store.close()


async def test_a_log_that_is_damaged_is_told_of_and_does_not_hold_up_the_others(
    data: Path, clock: VirtualClock
) -> None:
    abandon(await grown(data, clock))
    path = queue_directory(data, queue_id=4)
    path.rename(path.with_name("away"))
    path.symlink_to("4")  # goes round in a circle
    store = open_store(data, clock)
    await store.log_checks.run()
    assert [(error.topic, error.queue_id) for error in store.damaged] == [(TOPIC, 4)]
    assert store.end_offset(TOPIC, 4) is None
    assert store.end_offset(TOPIC, 5) == 2
    await store.close()


async def test_a_member_of_a_broker_set_checks_all_logs_first(
    data: Path, clock: VirtualClock
) -> None:
    abandon(await grown(data, clock))
    store = open_store(data, clock, replace(SMALL, checks_all_logs=True))
    assert sorted(opened(store)) == list(range(QUEUES))
    await store.close()


async def test_after_a_power_cut_all_logs_are_checked_first(
    data: Path, clock: VirtualClock
) -> None:
    abandon(await grown(data, clock))
    files = Files()
    files.boot_id = "another"
    store = open_store(data, clock, files=files)
    assert sorted(opened(store)) == list(range(QUEUES))
    await store.close()


async def test_after_a_kill_logs_that_lost_a_file_are_looked_at(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    fill(store)
    await store.checkpoint()
    abandon(store)
    next((data / "queues" / TOPIC / "5").glob("*.idx")).unlink()
    store = open_store(data, clock)
    assert store.log_checks.finish()
    assert sorted(opened(store)) == [5, QUEUES - 1], "and the newest"
    assert bodies(store, queue_id=5) == [b"5"]
    await store.close()


async def test_a_checkpoint_and_a_stop_touch_only_what_changed(
    data: Path, clock: VirtualClock
) -> None:
    files = SyncedFiles()
    store = open_store(data, clock, files=files)
    fill(store)
    await store.checkpoint()
    files.synced.clear()
    put(store, b"more", queue_id=3)
    await store.checkpoint()
    assert files.synced == {3}
    put(store, b"more", queue_id=4)
    await store.close()
    assert files.synced == {3, 4}


async def test_open_files_stay_under_their_limit(data: Path, clock: VirtualClock) -> None:
    files = Files(open_files_max=4)
    store = open_store(data, clock, files=files)
    for round_number in range(2):
        for queue_id in range(QUEUES):
            put(store, b"%d" % round_number, queue_id=queue_id)
            assert files.open_count <= 4
    assert all(bodies(store, queue_id=q) == [b"0", b"1"] for q in range(QUEUES))
    assert files.open_count <= 4
    await store.checkpoint()
    assert files.open_count <= 4
    await store.close()


async def test_logs_that_nobody_asks_for_are_closed_and_go_on_where_they_were(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    fill(store)
    await store.checkpoint()
    put(store, b"unsynced", queue_id=3)
    put(store, *[b"x" * 500] * 2, queue_id=5)  # a second segment
    held = store.queue_log(TOPIC, 4)
    for _ in range(2):
        await store.logs.close_idle_logs()
    assert sorted(opened(store)) == [3, 5]
    assert store.queue_log(TOPIC, 4) is held
    await store.checkpoint()
    await store.logs.close_idle_logs()
    await store.logs.close_idle_logs()
    assert opened(store) == [5]
    for queue_id in range(QUEUES):
        put(store, b"again", queue_id=queue_id)
    assert bodies(store, queue_id=2) == [b"2", b"again"]
    assert bodies(store, queue_id=3) == [b"3", b"unsynced", b"again"]
    await store.close()
    assert_sound(data)


async def test_a_closed_log_s_topic_may_be_deleted(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    fill(store)
    await store.checkpoint()
    for _ in range(2):
        await store.logs.close_idle_logs()
    assert opened(store) == []
    await store.delete_topic(TOPIC)
    assert store.find_log(TOPIC, 0) is None
    assert not (data / "queues" / TOPIC).exists()
    await store.close()
