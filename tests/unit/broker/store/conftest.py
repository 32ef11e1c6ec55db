"""A data directory that is checked when its test is over."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.disks import FailingFiles
from support.store.stores import TOPIC, assert_sound, open_store

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.testing.clock import VirtualClock


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """Where a store goes; the test closes it, and every record and index entry is checked then.

    After an end that was not clean, the check sees what the next start makes of it.
    """
    directory = tmp_path / "data"
    yield directory
    if not was_stopped_cleanly(directory):
        asyncio.run(recover(directory))
    assert_sound(directory)


@pytest.fixture
def files() -> Iterator[FailingFiles]:
    """A disk that fails on order."""
    files = FailingFiles()
    yield files
    files.close()


@pytest.fixture
def read_only_files() -> Iterator[Files]:
    """A disk on which nothing is changed."""
    files = Files(4, read_only=True)
    yield files
    files.close()


@pytest.fixture
def queue_log(files: FailingFiles, tmp_path: Path) -> QueueLog:
    """An empty log with small segments, without a store."""
    return QueueLog(files, tmp_path / "data" / "queues" / TOPIC / "0", TOPIC, 0, 5, 1000)


@pytest_asyncio.fixture
async def small_store(data: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    """An empty store with small segments."""
    store = open_store(data, clock)
    yield store
    await store.close()


def was_stopped_cleanly(directory: Path) -> bool:
    with closing(sqlite3.connect(directory / "meta.db")) as database:
        row = database.execute("SELECT value FROM state WHERE key = 'clean_stop'").fetchone()
    return bool(row == ("yes",))


async def recover(directory: Path) -> None:
    await open_store(directory, VirtualClock()).close()
