"""What a read comes to at each place in a queue, with filters, sizes and resets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from support.store.stores import SMALL, TOPIC, append, open_store

from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.reading.filters import EVERYTHING, Selection
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.reading.reader import Reader, ReadQuery
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.properties import tags_code
from pocketmq.protocol.messages.records import decode_records
from pocketmq.testing.clock import VirtualClock


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    store = open_store(tmp_path / "data", clock, SMALL)
    for body, tags in ((b"a", "x"), (b"b", "y"), (b"c", "x")):
        append(store, body, tags)
    store.commit()
    yield store
    await store.close()


def query(offset: int, **changes: Any) -> ReadQuery:
    given: dict[str, Any] = {
        "group_name": "g", "topic_name": TOPIC, "queue_id": 0, "offset": offset, "count_max": 32,
        "size_max": 1 << 20, "selection": EVERYTHING, "with_sizes": False,
    }  # fmt: skip
    return ReadQuery(**(given | changes))


async def test_all_that_is_there_is_read_and_counted(store: MessageStore) -> None:
    progress = PullProgress(store.clock)
    found = Reader(store, store.clock, ConsumerOffsets(store.metadata), progress).read(query(1))
    assert (found.code, found.status, found.next_offset) == (0, "FOUND", 3)
    assert [m.body for m in decode_records(found.data)] == [b"b", b"c"]
    assert not found.sizes
    assert progress.offset("g", TOPIC, 0) == 3
    assert progress.total.messages == 2


async def test_where_there_is_nothing_the_status_says_where_to_go_on(store: MessageStore) -> None:
    reader = Reader(store, store.clock, ConsumerOffsets(store.metadata), PullProgress(store.clock))
    not_found, moved = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED
    assert reader.read(query(3))[:3] == (not_found, "OFFSET_OVERFLOW_ONE", 3)
    assert reader.read(query(4))[:3] == (moved, "OFFSET_OVERFLOW_BADLY", 3)
    assert reader.read(query(-1))[:3] == (moved, "OFFSET_TOO_SMALL", 0)
    assert reader.read(query(0, queue_id=1))[:3] == (not_found, "NO_MESSAGE_IN_QUEUE", 0)
    assert reader.read(query(5, queue_id=1))[:3] == (moved, "NO_MESSAGE_IN_QUEUE", 0)


async def test_what_is_not_selected_is_passed_over(store: MessageStore) -> None:
    reader = Reader(store, store.clock, ConsumerOffsets(store.metadata), PullProgress(store.clock))
    found = reader.read(query(0, selection=Selection({tags_code("y")})))
    assert [m.body for m in decode_records(found.data)] == [b"b"]
    nothing = reader.read(query(0, selection=Selection({tags_code("z")})))
    assert nothing[:3] == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 3)


async def test_sizes_are_given_only_for_neighbouring_records(store: MessageStore) -> None:
    reader = Reader(store, store.clock, ConsumerOffsets(store.metadata), PullProgress(store.clock))
    found = reader.read(query(0, with_sizes=True))
    sizes = [int.from_bytes(found.sizes[at : at + 4], "big") for at in (0, 4, 8)]
    assert sum(sizes) == len(found.data)
    picked = reader.read(query(0, with_sizes=True, selection=Selection({tags_code("x")})))
    assert not picked.sizes


async def test_a_reset_comes_before_the_messages(store: MessageStore) -> None:
    offsets = ConsumerOffsets(store.metadata)
    reader = Reader(store, store.clock, offsets, PullProgress(store.clock))
    offsets.reset("g", TOPIC, {0: 2})
    found = reader.read(query(0))
    assert found[:3] == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", 2)
    assert reader.read(query(2)).status == "FOUND"
