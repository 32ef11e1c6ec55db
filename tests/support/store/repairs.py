"""Directories in tests that are damaged, repaired, and opened again."""

from __future__ import annotations

from pathlib import Path

import msgspec
from support.store.stores import SMALL, TOPIC, open_store, put

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.mending.repair import RepairReport, repair_directory
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.runtime.clock import Clock

BODIES = [bytes((65 + index,)) * 400 for index in range(5)]
"""Two records fit into a segment: there are three of them."""


async def filled(directory: Path, clock: Clock) -> Path:
    """A directory with two queues, stopped cleanly."""
    store = open_store(directory, clock)
    enter_topic(store)
    put(store, *BODIES)
    put(store, b"x", queue_id=3)
    await store.close()
    return directory


def enter_topic(store: MessageStore) -> None:
    """Has the metadata know the topic, as the broker's table does."""
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=8, write_queue_nums=8)
    store.metadata.save_topics([(TOPIC, msgspec.json.encode(config).decode())])


def contents(directory: Path) -> dict[Path, bytes]:
    """Every file but the lock, by its path."""
    return {
        path.relative_to(directory): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in ("lock", "meta.db-shm")
    }


def repaired(directory: Path) -> RepairReport:
    """Tries a repair, which changes nothing, then makes it; the check is clean then."""
    before = contents(directory)
    folder = directory / "set-aside"
    planned = repair_directory(directory, folder, dry_run=True)
    assert contents(directory) == before
    done = repair_directory(directory, folder, dry_run=False)
    assert done == planned
    assert done.refusals == []
    assert check_directory(directory).problems == []
    assert repair_directory(directory, folder, dry_run=True).steps == []
    return done


async def left(directory: Path, clock: Clock, queue_id: int = 0) -> list[bytes]:
    """What a queue holds when a broker opens the directory, which also takes another message."""
    store = open_store(directory, clock, SMALL)
    assert len(store.damaged) == 0
    found = [m.body for m in served(store, queue_id)]
    put(store, b"next", queue_id=queue_id)
    assert [m.body for m in served(store, queue_id)] == [*found, b"next"]
    await store.close()
    assert check_directory(directory).problems == []
    return found


def served(store: MessageStore, queue_id: int = 0) -> list[ReceivedMessage]:
    """What consumers of a queue get: records that stand for lost ones are passed over."""
    queue_log = store.find_log(TOPIC, queue_id)
    found: list[ReceivedMessage] = []
    if queue_log is None:
        return found
    offset = queue_log.min_offset
    while offset < queue_log.max_offset:
        part = queue_log.read(offset, 100, 1 << 20)
        if offset < queue_log.unverified_end:
            part = store.verified(queue_log, offset, part)
        found += decode_records(part.data, "a")
        offset = part.next_offset
    return found
