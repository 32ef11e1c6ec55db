from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.store.repairs import BODIES, filled
from support.store.stores import (
    RECORD_OVERHEAD,
    TOPIC,
    cut_file,
    damage,
    open_store,
    put,
    segment_files,
)

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.mending.dump import (
    Gap,
    StoredRecord,
    dump_directory,
    dump_index,
    dump_log,
)
from pocketmq.protocol.messages.records import decode_records
from pocketmq.testing.clock import VirtualClock

SIZE = RECORD_OVERHEAD + 400


def shown(found: Iterator[StoredRecord | Gap]) -> list[bytes | Gap]:
    """Bodies, and what is damaged."""
    out: list[bytes | Gap] = []
    for item in found:
        if isinstance(item, Gap):
            out.append(item)
        else:
            (message,) = decode_records(item.data)
            assert (message.queue_offset, message.store_timestamp) == (item.offset, item.timestamp)
            out.append(message.body)
    return out


async def test_records_are_shown_by_topic_queue_and_offset(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    directory = await filled(tmp_path / "data", clock)
    assert shown(dump_directory(read_only_files, directory)) == [*BODIES, b"x"]
    assert shown(dump_directory(read_only_files, directory, "Other")) == []
    assert shown(dump_directory(read_only_files, directory, TOPIC, 3)) == [b"x"]
    for start in range(7):
        for end in range(7):
            found = shown(dump_directory(read_only_files, directory, TOPIC, 0, start, end))
            assert found == BODIES[start:end], (start, end)


async def test_a_wrong_index_does_not_mislead(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    directory = await filled(tmp_path / "data", clock)
    cut_file(segment_files(directory, "idx")[0], HEADER_SIZE)
    damage(segment_files(directory, "idx")[1], HEADER_SIZE + 20 + 7)
    assert shown(dump_directory(read_only_files, directory, TOPIC, 0, 1)) == BODIES[1:]
    assert shown(dump_directory(read_only_files, directory, TOPIC, 0, 3)) == BODIES[3:]


async def test_damage_is_passed_over_and_told_of(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    directory = await filled(tmp_path / "data", clock)
    middle, newest = segment_files(directory)[1:]
    damage(middle, HEADER_SIZE + 100)
    with newest.open("ab") as file:
        file.write(b"torn")
    gap, end = Gap(middle, 2 * SIZE, SIZE, False), Gap(newest, 5 * SIZE, 4, True)
    assert shown(dump_directory(read_only_files, directory, TOPIC, 0)) == [
        *BODIES[:2], gap, *BODIES[3:], end,
    ]  # fmt: skip
    assert str(end) == f"{newest}: 4 bytes from position {5 * SIZE} on are no sound record"


async def test_a_running_brokers_records_are_shown(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    store = open_store(tmp_path, clock)
    put(store, *BODIES)
    assert shown(dump_directory(read_only_files, tmp_path, TOPIC, 0, 3)) == BODIES[3:]
    put(store, b"more")
    assert shown(dump_directory(read_only_files, tmp_path, TOPIC, 0, 4)) == [BODIES[4], b"more"]
    await store.close()


async def test_single_files_are_shown_wherever_they_are(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    directory = await filled(tmp_path / "data", clock)
    moved = tmp_path / "moved.log"
    segment_files(directory)[1].rename(moved)
    assert shown(dump_log(read_only_files, moved)) == BODIES[2:4]
    assert shown(dump_log(read_only_files, moved, 3)) == BODIES[3:4]
    index = segment_files(directory, "idx")[1]
    entries = list(dump_index(read_only_files, index, 3))
    assert [(e.offset, e.position, e.size) for e in entries] == [(3, 3 * SIZE, SIZE)]
    assert entries[0].physical_offset == (1 << 40) + 3 * SIZE
    assert len(list(dump_index(read_only_files, index, 0, 3))) == 1
    with pytest.raises(FormatError, match="mark of a PocketMQ queue index"):
        list(dump_index(read_only_files, moved))
