from __future__ import annotations

import errno
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.directory_syncs import DirectorySyncs

ONE, OTHER = Path("one"), Path("other")


class Disk:
    """Syncs that begin when the test knows of it and end when it says so."""

    def __init__(self) -> None:
        self.begun: list[Path] = []
        self.error: OSError | None = None
        self._has_begun = threading.Semaphore(0)
        self._may_end = threading.Semaphore(0)

    def sync(self, path: Path) -> None:
        self.begun.append(path)
        self._has_begun.release()
        self._may_end.acquire()
        if self.error is not None:
            raise self.error

    def wait_for_begin(self) -> None:
        self._has_begun.acquire()

    def end(self, count: int = 1) -> None:
        self._may_end.release(count)


def call(threads: ThreadPoolExecutor, syncs: DirectorySyncs, users: int) -> Future[None]:
    """Asks for a sync in a thread; returns when so many have asked."""
    future = threads.submit(syncs.sync, ONE)
    found = 0
    while found != users:
        with syncs._changed:
            found = syncs._of[ONE].users if ONE in syncs._of else 0
    return future


def test_who_asks_while_one_is_under_way_shares_the_next() -> None:
    disk = Disk()
    syncs = DirectorySyncs(disk.sync)
    with ThreadPoolExecutor(8) as threads:
        first = call(threads, syncs, 1)
        disk.wait_for_begin()
        others = [call(threads, syncs, users) for users in range(2, 8)]
        assert not first.done()
        disk.end()
        first.result()
        disk.wait_for_begin()
        assert not any(other.done() for other in others)
        disk.end()
        for other in others:
            other.result()
    assert disk.begun == [ONE, ONE]
    assert not syncs._of


def test_directories_do_not_wait_for_each_other() -> None:
    disk = Disk()
    syncs = DirectorySyncs(disk.sync)
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(syncs.sync, path) for path in (ONE, OTHER)]
        disk.wait_for_begin()
        disk.wait_for_begin()
        disk.end(2)
        for future in futures:
            future.result()
    assert set(disk.begun) == {ONE, OTHER}


def test_after_a_failure_nobody_is_told_of_a_success() -> None:
    disk = Disk()
    disk.error = OSError(errno.EIO, "input/output error")
    syncs = DirectorySyncs(disk.sync)
    with ThreadPoolExecutor(2) as threads:
        first = call(threads, syncs, 1)
        disk.wait_for_begin()
        second = call(threads, syncs, 2)
        disk.end()
        for future in (first, second):
            with pytest.raises(OSError, match="input/output error"):
                future.result()
        disk.error = None
        with pytest.raises(OSError, match="input/output error"):
            syncs.sync(OTHER)
    assert disk.begun == [ONE]


def test_a_directory_that_is_gone_is_no_failure_of_others() -> None:
    disk = Disk()
    disk.error = FileNotFoundError(errno.ENOENT, "no such directory")
    disk.end(2)
    syncs = DirectorySyncs(disk.sync)
    with pytest.raises(FileNotFoundError):
        syncs.sync(ONE)
    disk.error = None
    syncs.sync(OTHER)
    assert disk.begun == [ONE, OTHER]
