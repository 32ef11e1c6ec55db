"""Deleted topics whose files a crash, or a disk that fails, has left."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.store.disks import FailingFiles, SlowFiles
from support.store.stores import (
    TOPIC,
    abandon,
    assert_sound,
    bodies,
    copy_of,
    open_store,
    put,
    queue_directory,
    segment_files,
)

from pocketmq.broker.store.deletions import REMOVED_AT_ONCE, remove_some
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.store import MessageStore
from pocketmq.testing.clock import VirtualClock, settle


class StubbornFiles(FailingFiles):
    """A disk on which no directory can be moved, and none removed, on order."""

    is_stubborn = True

    def move_directory(self, source: Path, target: Path) -> None:
        if self.is_stubborn:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(source))
        super().move_directory(source, target)

    def remove_directory(self, path: Path) -> None:
        if self.is_stubborn:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().remove_directory(path)


Opened = Callable[..., MessageStore]


@pytest.fixture
def opened(data: Path, clock: VirtualClock) -> Opened:
    """Opens a store on some files, or a sound disk's, and puts an old message into `TOPIC`."""

    def opened(files: Files | None = None) -> MessageStore:
        store = open_store(data, clock, files=files)
        put(store, b"old")
        return store

    return opened


async def test_files_that_come_back_after_a_deletion_are_removed(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    put(store, b"old", bytes(900), b"older")
    put(store, b"other", topic="Other")
    await store.checkpoint()
    (number,) = store.logs.table.numbers(TOPIC)
    store.metadata.delete_topic(TOPIC, [number])
    left = copy_of(data, "left")
    abandon(store)
    store = open_store(left, clock)
    assert store.queue_ids(TOPIC) == []
    assert not queue_directory(left).parent.exists()
    assert store.metadata.deleted_logs() == set()
    put(store, b"new")
    assert bodies(store) == [b"new"]
    assert bodies(store, "Other") == [b"other"]
    await store.close()
    assert_sound(left)


async def test_a_topic_is_deleted_though_its_files_cannot_be(opened: Opened, data: Path) -> None:
    files = StubbornFiles()
    store = opened(files)
    await store.delete_topic(TOPIC)
    assert bodies(store) == []
    assert store.metadata.deleted_logs() == {1}
    with pytest.raises(WriteFailedError, match=r"Input/output error.*; look whether its disk is s"):
        store.queue_log(TOPIC, 0)
    assert bodies(store) == []
    files.is_stubborn = False
    put(store, b"new")
    assert bodies(store) == [b"new"]
    await store.close()


class GatedFiles(FailingFiles):
    """A disk on which removals wait in their thread for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def delete_unopened(self, path: Path) -> None:
        assert self.gate.wait(60), "nobody opened the gate"
        super().delete_unopened(path)


async def test_a_deleted_topic_is_made_again_while_its_files_are_still_removed(
    data: Path, clock: VirtualClock
) -> None:
    files = GatedFiles()
    store = open_store(data, clock, files=files)
    for queue_id in range(REMOVED_AT_ONCE):
        put(store, b"old", queue_id=queue_id)
    await store.delete_topic(TOPIC)
    assert not queue_directory(data).parent.exists()
    assert files.open_count == 0
    put(store, b"new")
    assert bodies(store) == [b"new"]
    await store.delete_topic(TOPIC)
    put(store, b"newer")
    assert len(deleted(data)) == 2
    files.gate.set()
    await store.deleted_files_gone()
    assert deleted(data) == []
    assert store.metadata.deleted_logs() == set()
    assert bodies(store) == [b"newer"]
    await store.close()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_the_next_run_removes_what_this_one_has_not(
    opened: Opened, data: Path, clock: VirtualClock, *, is_clean: bool
) -> None:
    files = GatedFiles()
    store = opened(files)
    await store.delete_topic(TOPIC)
    if not is_clean:
        left = copy_of(data, "left")
    await store.close()
    if is_clean:
        left = data
        assert_sound(left)
    store = open_store(left, clock)
    assert store.queue_ids(TOPIC) == []
    assert len(deleted(left)) == 1
    put(store, b"new")
    store.remove_deleted()
    await store.deleted_files_gone()
    assert deleted(left) == []
    assert bodies(store) == [b"new"]
    await store.close()
    assert_sound(left)


async def test_a_directory_that_cannot_be_moved_is_removed_by_the_next_start(
    opened: Opened, data: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    (data / "deleted").touch()  # where the folder belongs
    await store.delete_topic(TOPIC)
    assert "the next start removes the files of" in caplog.text
    await store.close()
    store = open_store(data, clock)
    assert not queue_directory(data).exists()
    assert store.metadata.deleted_logs() == set()
    await store.close()


class GatedSyncs(Files):
    """A disk on which flushes wait in their thread for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def sync(self, path: Path) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert self.gate.wait(60), "nobody opened the gate"
        super().sync(path)


async def test_no_file_is_touched_before_the_disk_knows_of_the_deletion(
    opened: Opened, data: Path
) -> None:
    files = GatedSyncs()
    store = opened(files)
    deletion = store.delete_topic(TOPIC)
    put(store, b"other", topic="Other")
    await settle()
    assert store.find_log(TOPIC, 0) is None
    assert segment_files(data) != []
    files.gate.set()
    await deletion
    assert not queue_directory(data).parent.exists()
    await store.close()


async def test_a_topic_that_is_made_again_at_once_has_its_deletion_brought_to_the_disk_first(
    opened: Opened, data: Path
) -> None:
    files = GatedSyncs()
    store = opened(files)
    deletion = store.delete_topic(TOPIC)
    put(store, b"new")
    assert len(deleted(data)) == 1
    files.gate.set()
    await deletion
    await store.deleted_files_gone()
    assert bodies(store) == [b"new"]
    await store.close()


async def test_a_stop_waits_until_the_disk_knows_of_the_deletion(
    opened: Opened, data: Path
) -> None:
    files = GatedSyncs()
    store = opened(files)
    deletion = store.delete_topic(TOPIC)
    files.gate.set()
    await store.close()
    await deletion
    assert not queue_directory(data).parent.exists()


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_when_nobody_knows_whether_the_disk_has_the_deletion_its_files_stay(
    opened: Opened, data: Path, clock: VirtualClock, *, is_made_again: bool
) -> None:
    files = SlowFiles()
    store = opened(files)
    files.error = errno.EIO
    deletion = store.delete_topic(TOPIC)
    if is_made_again:
        with pytest.raises(WriteFailedError, match=r"flushing .*meta\.db-wal failed"):
            store.queue_log(TOPIC, 0)
    with pytest.raises(WriteFailedError, match=r"flushing .*meta\.db-wal failed"):
        await deletion
    assert store.disk.failed_reason is not None
    assert segment_files(data) != []
    await store.close()
    store = open_store(data, clock)
    assert bodies(store) == []
    assert not queue_directory(data).exists()
    await store.close()


def test_so_many_files_are_removed_at_once_and_no_more(tmp_path: Path) -> None:
    for name in ("0/a", "0/b", "1/a", "1/b"):
        path = tmp_path / "topic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    files, topic = Files(), tmp_path / "topic"
    counts = [7]
    while topic.exists():
        remove_some(files, topic, 3)
        counts.append(len(list(tmp_path.rglob("*"))))
    assert counts == [7, 4, 1, 0]


def deleted(directory: Path) -> list[str]:
    """What is still to be removed."""
    return sorted(os.listdir(directory / "deleted"))


def test_a_deletion_that_cannot_be_written_down_changes_nothing(opened: Opened) -> None:
    store = opened()
    store.metadata._db.execute("PRAGMA query_only=1")
    with pytest.raises(WriteFailedError):
        store.delete_topic(TOPIC)
    assert bodies(store) == [b"old"]
    abandon(store)
