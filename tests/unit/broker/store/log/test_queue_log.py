from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support.store.disks import FailingFiles
from support.store.stores import BORN_MS, RECORD_OVERHEAD, TOPIC, Outcome, add, messages, record_of

from pocketmq.broker.store.log import queue_log as queue_log_module
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, QueueLog, Waiter
from pocketmq.broker.store.log.recovery import open_queue_log
from pocketmq.broker.store.log.segment import (
    ENTRY,
    ENTRY_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    Segment,
    segment_stem,
)
from pocketmq.protocol.messages.properties import tags_code
from pocketmq.protocol.messages.records import decode_records


def read_bodies(queue_log: QueueLog) -> list[bytes]:
    return [m.body for m in messages(queue_log)]


def test_nothing_is_written_before_the_first_commit(queue_log: QueueLog) -> None:
    assert (queue_log.min_offset, queue_log.max_offset, queue_log.size) == (0, 0, 0)
    queue_log.append(record_of(queue_log, b"x"), 0, None)
    assert (queue_log.next_offset, queue_log.max_offset) == (1, 0)
    assert not queue_log.directory.exists()
    assert queue_log.has_pending


def test_a_turn_is_one_write_and_tells_its_waiters(
    queue_log: QueueLog, files: FailingFiles
) -> None:
    outcomes = [Outcome() for _ in range(3)]
    for outcome in outcomes:
        queue_log.append(record_of(queue_log, b"x"), 0, Waiter(outcome.tell, AS_CONFIGURED))
    files.fail_after(3)  # two headers and the records
    waiters = queue_log.commit(BORN_MS)
    assert files.countdown == 0
    assert [w.on_stored for w in waiters] == [o.tell for o in outcomes]
    assert not queue_log.has_pending
    files.heal()
    assert read_bodies(queue_log) == [b"x"] * 3


def test_segments_follow_each_other_and_one_may_be_larger(queue_log: QueueLog) -> None:
    sizes = [300, 300, 300, 2000, 1, 100]
    for size in sizes:
        add(queue_log, bytes(size))
    assert [s.base_offset for s in queue_log.segments] == [0, 2, 3, 4]
    assert queue_log.size == sum(sizes) + len(sizes) * RECORD_OVERHEAD
    assert [len(b) for b in read_bodies(queue_log)] == sizes


def test_entries_are_read_from_the_file_and_from_memory(
    queue_log: QueueLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_log_module, "INDEX_TAIL_SIZE_MAX", 3 * ENTRY_SIZE)
    for index in range(5):
        add(queue_log, b"%d" % index)
    assert queue_log.index_tail_size == 2 * ENTRY_SIZE

    def read(offset: int, count: int) -> list[bytes]:
        return [m.body for m in decode_records(queue_log.read(offset, count, 1 << 20).data)]

    everything = [b"0", b"1", b"2", b"3", b"4"]
    for offset in range(5):
        for count in range(1, 6 - offset):
            assert read(offset, count) == everything[offset : offset + count]
    queue_log.write_index()
    assert read(0, 32) == everything


def test_an_index_that_cannot_be_written_waits_in_memory(
    queue_log: QueueLog, files: FailingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(queue_log, b"0")
    monkeypatch.setattr(queue_log_module, "INDEX_TAIL_SIZE_MAX", ENTRY_SIZE)
    files.fail_after(1)
    add(queue_log, b"1")
    assert queue_log.index_tail_size == 2 * ENTRY_SIZE
    add(queue_log, b"2")
    assert queue_log.index_tail_size == 0
    assert read_bodies(queue_log) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("before", [[], [b"small"], [b"small"] * 400])
def test_a_record_in_parts_is_like_a_joined_one(
    queue_log: QueueLog, size: int, before: list[bytes]
) -> None:
    """Whether the parts are joined for the write or not."""
    outcome = Outcome()
    for body in before:
        queue_log.append(record_of(queue_log, body), 0, None)
    record = record_of(queue_log, bytes(size))
    parts = [record[:90], record[90:-5], record[-5:]]
    queue_log.append_parts(parts, 7, Waiter(outcome.tell, AS_CONFIGURED))
    queue_log.append(record_of(queue_log, b"after"), 0, None)
    assert [w.on_stored for w in queue_log.commit(BORN_MS)] == [outcome.tell]
    found = messages(queue_log)
    assert [m.body for m in found] == [*before, bytes(size), b"after"]
    assert [m.queue_offset for m in found] == list(range(len(found)))
    assert ENTRY.unpack(queue_log.entries(len(before), 1))[2] == 7


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_failed_write_of_parts_leaves_nothing_behind(
    queue_log: QueueLog, files: FailingFiles, part: float
) -> None:
    add(queue_log, b"kept")
    size = queue_log.segments[0].log_path.stat().st_size
    files.fail_after(0, errno.EIO, part)
    record = record_of(queue_log, bytes(100_000))
    queue_log.append_parts([record[:9], record[9:]], 0, Waiter(Outcome().tell, AS_CONFIGURED))
    with pytest.raises(OSError, match="Input/output error"):
        queue_log.commit(BORN_MS)
    assert len(queue_log.roll_back()) == 1
    assert queue_log.segments[0].log_path.stat().st_size == size
    add(queue_log, b"next")
    assert read_bodies(queue_log) == [b"kept", b"next"]


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_failed_write_leaves_nothing_behind(
    queue_log: QueueLog, files: FailingFiles, part: float
) -> None:
    add(queue_log, b"kept")
    size = queue_log.segments[0].log_path.stat().st_size
    files.fail_after(0, errno.EIO, part)
    outcomes = [Outcome(), Outcome()]
    for outcome in outcomes:
        queue_log.append(record_of(queue_log, b"lost"), 0, Waiter(outcome.tell, AS_CONFIGURED))
    with pytest.raises(OSError, match="Input/output error"):
        queue_log.commit(BORN_MS)
    assert [w.on_stored for w in queue_log.roll_back()] == [o.tell for o in outcomes]
    assert queue_log.segments[0].log_path.stat().st_size == size
    assert (queue_log.next_offset, queue_log.end_offset) == (1, 1)
    add(queue_log, b"next")
    assert read_bodies(queue_log) == [b"kept", b"next"]


def test_what_cannot_be_cut_at_once_is_cut_before_the_next_write(
    queue_log: QueueLog, files: FailingFiles
) -> None:
    """Else an equally long record would make the rest of the failed turn valid again."""
    add(queue_log, b"kept")
    files.fail_after(0, errno.EIO, 1.0, failures=2)
    for body in (b"lost1", b"lost2"):
        queue_log.append(record_of(queue_log, body), 0, None)
    with pytest.raises(OSError, match="Input/output error"):
        queue_log.commit(BORN_MS)
    queue_log.roll_back()
    assert files.failed == 2
    add(queue_log, b"next1")
    recovered = open_queue_log(
        files, queue_log.directory, TOPIC, 0, queue_log.number, 1000, Checkpoint()
    )
    assert recovered.cut_size == 0
    assert read_bodies(recovered.queue_log) == [b"kept", b"next1"]


@pytest.mark.parametrize("writes", [0, 1])
def test_a_segment_that_cannot_be_begun_leaves_no_file(
    queue_log: QueueLog, files: FailingFiles, writes: int
) -> None:
    files.fail_after(writes)
    queue_log.append(record_of(queue_log, b"x"), 0, None)
    with pytest.raises(OSError, match="No space"):
        queue_log.commit(BORN_MS)
    queue_log.roll_back()
    assert list(queue_log.directory.iterdir()) == []
    add(queue_log, b"y")
    assert read_bodies(queue_log) == [b"y"]


def test_a_queue_may_take_more_than_its_physical_offsets_can_count(
    files: FailingFiles, tmp_path: Path
) -> None:
    base = (1 << 40) - 500
    directory = tmp_path / "queues" / TOPIC / "0"
    segment = Segment(segment_stem(directory, base), 5, base, 77, BORN_MS)
    files.create(segment.index_path, segment.header(INDEX_MAGIC))
    files.create(segment.log_path, segment.header(LOG_MAGIC))
    queue_log = QueueLog(files, directory, TOPIC, 0, 5, 1000, [segment], base, 77)
    bodies = [bytes((index,)) * 200 for index in range(6)]
    for body in bodies:
        add(queue_log, body, tags="red")
    assert queue_log.end_position > 1 << 40
    assert read_bodies(queue_log) == bodies
    assert queue_log.read(77, 9, 1 << 20, {tags_code("red")}).records == 3
    assert queue_log.timestamp_at(82) == BORN_MS
    for message in messages(queue_log):
        assert message.physical_offset >> 40 == 5
        data = queue_log.read_record(message.physical_offset)
        assert next(decode_records(data)).body == message.body
    queue_log.write_index()
    reopened = open_queue_log(files, directory, TOPIC, 0, 5, 1000, Checkpoint(base, 77)).queue_log
    assert read_bodies(reopened) == bodies


def test_a_queue_refuses_more_than_it_can_tell_apart(
    queue_log: QueueLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_log_module, "LOG_SIZE_MAX", 2000)
    for _ in range(2):
        add(queue_log, bytes(900))
    queue_log.append(record_of(queue_log, b"x" * 900), 0, None)
    queue_log.commit(BORN_MS)
    queue_log.append(record_of(queue_log, b"x" * 900), 0, None)
    with pytest.raises(OSError, match="shorten fileReservedTime or use more queues"):
        queue_log.commit(BORN_MS)


def test_what_is_not_on_the_disk_yet_is_listed(queue_log: QueueLog) -> None:
    assert queue_log.unsynced_logs() == queue_log.unsynced_directories() == []
    for _ in range(3):
        add(queue_log, bytes(800))
    paths = [segment.log_path for segment in queue_log.segments]
    assert queue_log.unsynced_logs() == paths
    above = queue_log.directory.parents
    assert queue_log.unsynced_directories() == [queue_log.directory, *above[:3]]
    queue_log.synced_position = queue_log.end_position
    queue_log.synced_base = queue_log.segments[-1].base_position
    assert queue_log.unsynced_logs() == queue_log.unsynced_directories() == []
    assert len(queue_log.unsynced_indexes()) == 3
    queue_log.indexed_position = queue_log.end_position
    add(queue_log, b"x")
    assert queue_log.unsynced_logs() == paths[2:]
    assert queue_log.unsynced_indexes() == [p.with_suffix(".idx") for p in paths[2:]]
    assert queue_log.unsynced_directories() == []
    queue_log.begin_segment(BORN_MS)
    assert queue_log.unsynced_directories() != []
    queue_log.forget_syncs_behind(queue_log.segments[1].base_position + 1)
    assert queue_log.unsynced_logs() == [s.log_path for s in queue_log.segments[1:]]


def test_the_oldest_segment_goes_when_the_next_is_on_the_disk(queue_log: QueueLog) -> None:
    add(queue_log, bytes(900))
    assert not queue_log.has_spare_segment
    queue_log.begin_segment(BORN_MS)
    assert queue_log.ends_empty
    assert not queue_log.has_spare_segment
    queue_log.synced_base = queue_log.segments[-1].base_position
    assert queue_log.drop_oldest_segment() == 900 + RECORD_OVERHEAD
    assert (queue_log.min_offset, queue_log.max_offset, queue_log.size) == (1, 1, 0)
    assert len(list(queue_log.directory.iterdir())) == 2
    add(queue_log, b"next")
    assert [m.queue_offset for m in messages(queue_log)] == [1]


def stuck(path: Path) -> None:
    raise OSError(f"{path} is stuck")


def test_a_segment_that_cannot_be_removed_stays_the_oldest(
    queue_log: QueueLog, files: FailingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(queue_log, bytes(900))
    add(queue_log, bytes(900))
    queue_log.synced_base = queue_log.segments[-1].base_position
    with monkeypatch.context() as patch:
        patch.setattr(files, "delete", stuck)
        with pytest.raises(OSError, match="stuck"):
            queue_log.drop_oldest_segment()
    assert queue_log.min_offset == 0
    queue_log.drop_oldest_segment()
    assert queue_log.min_offset == 1


def test_who_waits_for_a_log_that_is_deleted_is_to_be_told(queue_log: QueueLog) -> None:
    add(queue_log, bytes(900))
    outcome = Outcome()
    queue_log.append(record_of(queue_log, b"x"), 0, Waiter(outcome.tell, AS_CONFIGURED))
    assert [waiter.on_stored for waiter in queue_log.forget()] == [outcome.tell]
    assert not queue_log.has_pending
