from __future__ import annotations

import pytest
from support.store.disks import FailingFiles
from support.store.stores import RECORD_OVERHEAD, add, damage, messages

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.log import readable_log
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY_SIZE, HEADER_SIZE, physical_offset
from pocketmq.protocol.messages.properties import tags_code
from pocketmq.protocol.messages.records import decode_records

V6_HOST = bytes(15) + b"\1" + (10911).to_bytes(4, "big")


def test_a_read_ends_where_its_segment_does(queue_log: QueueLog) -> None:
    for _ in range(4):
        add(queue_log, bytes(350))
    assert queue_log.read(0, 32, 1 << 20).records == 2
    assert queue_log.read(1, 32, 1 << 20).next_offset == 2


def test_only_the_whole_of_a_record_can_be_read_by_its_place(queue_log: QueueLog) -> None:
    add(queue_log, b"first", b"second")
    add(queue_log, bytes(900))
    found = {
        offset: next(decode_records(data)).body
        for offset in range(physical_offset(5, 0) - 3, physical_offset(5, queue_log.size) + 3)
        if (data := queue_log.read_record(offset))
    }
    assert [len(body) for body in found.values()] == [5, 6, 900]
    assert list(found) == [m.physical_offset for m in messages(queue_log)]


def test_filters_read_only_what_matches(queue_log: QueueLog) -> None:
    for index in range(12):
        add(queue_log, b"%d" % index, tags="red" if index % 3 else "blue")
    red = {tags_code("red")}
    part = queue_log.read(0, 3, 1 << 20, red)
    assert [m.body for m in decode_records(part.data)] == [b"1", b"2", b"4"]
    assert part.next_offset == 5
    nothing = queue_log.read(0, 3, 1 << 20, {1})
    assert (nothing.data, nothing.records) == (b"", 0)
    assert nothing.next_offset == queue_log.segments[1].base_offset


def test_a_filtered_read_ends_after_so_many_entries(
    queue_log: QueueLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable_log, "SCAN_ENTRIES_MAX", 4)
    add(queue_log, *[b"x"] * 7, tags="blue")
    assert queue_log.read(0, 2, 1 << 20, {tags_code("red")}).next_offset == 4


def test_a_read_by_content_ends_after_so_many_bytes(
    queue_log: QueueLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable_log, "SCAN_SIZE_MAX", 2 * RECORD_OVERHEAD + 20)
    add(queue_log, bytes(300), *[b"x"] * 4)
    examined: list[bytes] = []

    def matches(record: bytes) -> bool:
        examined.append(record)
        return False

    assert queue_log.read(0, 32, 1 << 20, None, matches).next_offset == 1, "however large it is"
    assert queue_log.read(1, 32, 1 << 20, None, matches).next_offset == 3
    assert len(examined) == 3


def test_the_first_record_always_fits(queue_log: QueueLog) -> None:
    add(queue_log, bytes(100), bytes(100), tags="red")
    assert queue_log.read(0, 5, 1).records == 1
    assert queue_log.read(0, 5, 1, {tags_code("red")}).records == 1
    size = RECORD_OVERHEAD + 100 + len("TAGS\x01red\x02")
    assert queue_log.read(0, 5, 2 * size).records == 2
    assert queue_log.read(0, 5, 2 * size - 1).records == 1


def test_store_times_are_found_behind_both_kinds_of_host(queue_log: QueueLog) -> None:
    add(queue_log, b"v4", time_ms=1000)
    add(queue_log, b"v6", time_ms=2000, born_host=V6_HOST)
    assert [queue_log.timestamp_at(0), queue_log.timestamp_at(1)] == [1000, 2000]


@pytest.mark.parametrize(
    ("time_ms", "lower", "upper"),
    [
        (500, 0, 0),
        (1000, 0, 1),
        (1001, 2, 1),
        (2000, 2, 2),
        (2999, 3, 2),
        (3000, 3, 3),
        (9000, 4, 3),
    ],
)
def test_offsets_at_times(queue_log: QueueLog, time_ms: int, lower: int, upper: int) -> None:
    for moment in (1000, 1000, 2000, 3000):
        add(queue_log, bytes(400), time_ms=moment)
    assert queue_log.offset_at_time(time_ms) == lower
    assert queue_log.offset_at_time(time_ms, upper=True) == upper


@pytest.mark.parametrize("at", [HEADER_SIZE + 4, HEADER_SIZE + 10])
def test_a_damaged_entry_is_an_error_and_not_foreign_bytes(queue_log: QueueLog, at: int) -> None:
    add(queue_log, b"x", b"y", tags="red")
    queue_log.write_index()
    damage(queue_log.segments[0].index_path, at)
    with pytest.raises(FormatError, match="the index is made again if it is deleted"):
        queue_log.read(0, 1, 1 << 20)
    with pytest.raises(FormatError):
        queue_log.read(0, 1, 1 << 20, {tags_code("red")})


def test_a_short_index_is_an_error(queue_log: QueueLog, files: FailingFiles) -> None:
    add(queue_log, b"x", b"y")
    queue_log.write_index()
    files.truncate(queue_log.segments[0].index_path, HEADER_SIZE + ENTRY_SIZE + 7)
    with pytest.raises(FormatError, match="shorter than its log: stop the broker and delete it"):
        queue_log.read(0, 2, 1 << 20)
