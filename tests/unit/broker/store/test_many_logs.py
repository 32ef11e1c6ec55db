"""Queues that rest cost nothing: no log of theirs is opened, synced or looked at."""

from __future__ import annotations

from pathlib import Path

from support.store.disks import FailingFiles
from support.store.stores import TOPIC, abandon, assert_sound, bodies, open_store, put

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

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
    assert opened(store) == [3, QUEUES]
    assert bodies(store, queue_id=3) == [b"3", b"more"]
    assert bodies(store, queue_id=4) == [b"4"]
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
    assert opened(store) == [5]
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
