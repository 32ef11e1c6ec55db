"""Deleted topics whose files a crash, or a disk that fails, has left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from unit.broker.store.disks import FailingFiles
from unit.broker.store.stores import (
    TOPIC,
    abandon,
    assert_sound,
    bodies,
    copy_of,
    open_store,
    put,
    queue_directory,
)

from pocketmq.broker.store.errors import WriteFailedError
from pocketmq.testing.clock import VirtualClock


class StubbornFiles(FailingFiles):
    """A disk on which no file can be removed, on order."""

    is_stubborn = True

    def delete(self, path: Path) -> None:
        if self.is_stubborn:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().delete(path)


async def test_files_that_come_back_after_a_deletion_are_removed(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"old", bytes(900), b"older")
    put(store, b"other", topic="Other")
    await store.checkpoint()
    (number,) = store.known.numbers(TOPIC)
    store.metadata.delete_topic(TOPIC, [number])
    left = copy_of(tmp_path / "data", "left")
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


async def test_a_topic_is_deleted_though_its_files_cannot_be(
    tmp_path: Path, clock: VirtualClock
) -> None:
    files = StubbornFiles()
    store = open_store(tmp_path / "data", clock, files=files)
    put(store, b"old")
    store.delete_topic(TOPIC)
    assert bodies(store) == []
    assert store.metadata.deleted_logs() == {1}
    files.is_stubborn = False
    put(store, b"new")
    assert bodies(store) == [b"new"]
    await store.close()
    assert_sound(tmp_path / "data")


def test_a_deletion_that_cannot_be_written_down_changes_nothing(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"old")
    store.metadata._db.execute("PRAGMA query_only=1")
    with pytest.raises(WriteFailedError):
        store.delete_topic(TOPIC)
    assert bodies(store) == [b"old"]
    abandon(store)
