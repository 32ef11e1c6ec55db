from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace
from support.store.disks import FailingFiles
from support.store.stores import (
    SMALL,
    TOPIC,
    Outcome,
    abandon,
    append,
    assert_sound,
    bodies,
    copy_of,
    cut_file,
    damage,
    measure_disk,
    messages,
    open_store,
    put,
    queue_directory,
    segment_files,
)

from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.broker.store.disk.errors import (
    DamagedQueueError,
    DirectoryInUseError,
    DiskFullError,
    FormatError,
    StoreError,
    WriteFailedError,
)
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.store.writing.committer import NEW_LOGS_PER_COMMIT_MAX, NEW_LOGS_S_MAX
from pocketmq.protocol.messages.records import decode_records
from pocketmq.testing.clock import VirtualClock, settle


@pytest_asyncio.fixture
async def store(data: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    """An open store on a disk that can be told to fail."""
    store = open_store(data, clock, files=FailingFiles())
    yield store
    files_of(store).heal()
    await store.close()


def files_of(store: MessageStore) -> FailingFiles:
    assert isinstance(store.files, FailingFiles)
    return store.files


async def reopened(store: MessageStore) -> MessageStore:
    """The same directory after a clean stop."""
    await store.close()
    return open_store(store.directory, store.clock, files=FailingFiles())


def lose_metadata(data: Path) -> None:
    for path in data.glob("meta.db*"):
        path.unlink()


# -- ordinary life ----------------------------------------------------------------------------


async def test_queues_without_messages_cost_no_file(store: MessageStore, data: Path) -> None:
    assert store.find_log(TOPIC, 0) is None
    store.queue_log(TOPIC, 0)
    assert not (data / "queues").exists()
    put(store, b"x")
    assert [p.name for p in sorted(queue_directory(data).iterdir())] == [
        "00000000000000000000.idx",
        "00000000000000000000.log",
    ]


async def test_what_was_stored_is_there_after_a_clean_stop(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    put(store, *(b"%d" % index for index in range(30)))
    put(store, b"other", queue_id=7)
    numbers = store.queue_log(TOPIC, 0).number, store.queue_log(TOPIC, 7).number
    store = await reopened(store)
    assert store.was_clean
    assert bodies(store) == [b"%d" % index for index in range(30)]
    assert bodies(store, queue_id=7) == [b"other"]
    assert store.queue_ids(TOPIC) == [0, 7]
    assert (store.queue_log(TOPIC, 0).number, store.queue_log(TOPIC, 7).number) == numbers
    put(store, b"more")
    assert messages(store.find_log(TOPIC, 0))[-1].queue_offset == 30
    await store.close()


async def test_after_a_clean_stop_logs_are_opened_when_they_are_wanted(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    store = await reopened(store)
    assert not store.logs.open_logs()
    assert len(store.logs.table) == 1
    await store.close()


async def test_records_are_found_by_their_physical_offset(store: MessageStore) -> None:
    put(store, b"a", b"b", queue_id=1)
    put(store, b"c", queue_id=2)
    for queue_id in (1, 2):
        for message in messages(store.find_log(TOPIC, queue_id)):
            found = next(decode_records(store.read_physical(message.physical_offset)))
            assert (found.body, found.queue_id) == (message.body, queue_id)
    last = message.physical_offset
    for offset in (last + 1, last - 1, -1, 0, 99 << 40, 1 << 70):
        assert store.read_physical(offset) == b""


async def test_store_times_never_go_back(store: MessageStore, clock: VirtualClock) -> None:
    await clock.advance(10)
    put(store, b"now")
    clock._elapsed_s -= 8
    put(store, b"back")
    await clock.advance(9)
    put(store, b"on")
    times = [m.store_timestamp for m in messages(store.find_log(TOPIC, 0))]
    assert times == [times[0], times[0], times[0] + 1000]


async def test_store_times_do_not_go_back_over_a_restart(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    await clock.advance(100)
    put(store, b"now")
    await store.close()
    past = VirtualClock()
    store = open_store(data, past)
    put(store, b"back")
    first, second = messages(store.find_log(TOPIC, 0))
    assert first.store_timestamp == second.store_timestamp
    await store.close()


async def test_all_that_came_in_one_turn_is_told_in_order(store: MessageStore) -> None:
    outcomes = [append(store, b"%d" % index, queue_id=index % 2) for index in range(6)]
    assert not any(outcome.is_told for outcome in outcomes)
    grown: list[int] = []
    store.committer.appended.add(lambda queue_log: grown.append(queue_log.queue_id))
    store.commit()
    assert all(outcome.is_stored for outcome in outcomes)
    assert grown == [0, 1]
    assert (store.counters.total.messages, store.counters.total.size) == (
        6,
        sum(q.size for q in store.logs.open_logs()),
    )


async def stored_by_turns(outcomes: list[Outcome]) -> list[int]:
    """How many are stored now, and after each turn of the loop until all are."""
    loop, counts = asyncio.get_running_loop(), list[int]()

    def look() -> None:
        counts.append([outcome.is_stored for outcome in outcomes].count(True))
        if counts[-1] < len(outcomes):
            loop.call_soon(look)

    look()
    await settle()
    return counts


async def test_so_many_queues_are_begun_in_a_turn_and_no_more(store: MessageStore) -> None:
    """Other queues are not held up by them."""
    put(store, b"old")
    count = 2 * NEW_LOGS_PER_COMMIT_MAX + 3
    first = [append(store, b"first", queue_id=n) for n in range(1, count + 1)]
    second = [append(store, b"second", queue_id=n) for n in range(1, count + 1)]
    old = append(store, b"more")
    store.commit()
    assert old.is_stored
    late = append(store, b"late", queue_id=count)
    assert await stored_by_turns(first) == [
        NEW_LOGS_PER_COMMIT_MAX,
        2 * NEW_LOGS_PER_COMMIT_MAX,
        count,
    ]
    assert all(outcome.is_stored for outcome in [*second, late])
    assert bodies(store, queue_id=count) == [b"first", b"second", b"late"]


async def test_a_first_message_does_nothing_to_the_disk_before_its_commit(
    store: MessageStore, data: Path
) -> None:
    """So many come in one turn as a chunk holds."""
    outcomes = [append(store, b"x", queue_id=n) for n in range(2 * NEW_LOGS_PER_COMMIT_MAX)]
    assert store.metadata.queue_logs() == []
    assert not (data / "queues").exists()
    store.commit()
    assert len(store.metadata.queue_logs()) == NEW_LOGS_PER_COMMIT_MAX
    assert len(list((data / "queues" / TOPIC).iterdir())) == NEW_LOGS_PER_COMMIT_MAX
    await store.drain()
    assert all(outcome.is_stored for outcome in outcomes)
    assert store._new_logs.numbers == set()


async def test_queues_that_were_put_off_when_their_topic_was_deleted_leave_no_number(
    data: Path, clock: VirtualClock
) -> None:
    """The next run gives it away again, and must not take the new queue for the deleted one."""
    store = open_store(data, clock)
    append(store, b"x", queue_id=0)
    await store.delete_topic(TOPIC)
    assert store.metadata.deleted_logs() == set()
    append(store, b"x", topic="Other")
    await store.delete_topic("Other")
    store = await reopened(store)
    put(store, b"new")
    store = await reopened(store)
    assert bodies(store) == [b"new"]
    await store.close()


async def test_fewer_are_when_the_disk_is_busy(data: Path, clock: VirtualClock) -> None:
    class BusyFiles(FailingFiles):
        def create(self, path: Path | str, content: bytes) -> None:
            clock.block(NEW_LOGS_S_MAX)
            super().create(path, content)

    store = open_store(data, clock, files=BusyFiles())
    outcomes = [append(store, b"x", queue_id=n) for n in range(4)]
    store.commit()
    stored = await stored_by_turns(outcomes)
    await store.close()
    assert stored == [1, 2, 3, 4]


async def test_a_stop_writes_all_queues_that_were_put_off(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    outcomes = [append(store, b"x", queue_id=n) for n in range(3 * NEW_LOGS_PER_COMMIT_MAX)]
    await store.close()
    assert all(outcome.is_stored for outcome in outcomes)
    store = open_store(data, clock)
    assert len(store.queue_ids(TOPIC)) == 3 * NEW_LOGS_PER_COMMIT_MAX
    assert bodies(store, queue_id=3 * NEW_LOGS_PER_COMMIT_MAX - 1) == [b"x"]
    await store.close()


async def test_a_topic_may_be_deleted_while_its_queues_are_put_off(store: MessageStore) -> None:
    outcomes = [append(store, b"x", queue_id=n) for n in range(2 * NEW_LOGS_PER_COMMIT_MAX)]
    store.commit()
    await store.delete_topic(TOPIC)
    await settle(2)
    assert [outcome.is_stored for outcome in outcomes].count(True) == NEW_LOGS_PER_COMMIT_MAX
    assert all(outcome.is_told for outcome in outcomes)
    assert store.queue_ids(TOPIC) == []


async def test_the_loop_commits_what_nobody_else_does(store: MessageStore) -> None:
    outcome = append(store, b"x")
    store.schedule_commit(store.queue_log(TOPIC, 0))
    await store.clock.sleep(0)
    assert outcome.is_stored


# -- failing disks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EIO, WriteFailedError),
    ],
)
async def test_a_failed_write_is_told_and_forgotten(
    store: MessageStore, error: int, kind: type[StoreError]
) -> None:
    put(store, b"kept")
    files_of(store).fail_after(0, error)
    lost = [append(store, b"lost"), append(store, b"lost too")]
    store.commit()
    assert {type(outcome.error) for outcome in lost} == {kind}
    assert os.strerror(error) in str(lost[0].error)
    assert (store.refusal is not None) == (kind is DiskFullError)
    put(store, b"next")
    assert bodies(store) == [b"kept", b"next"]


async def test_the_other_queues_of_a_turn_are_stored(store: MessageStore) -> None:
    put(store, b"0", queue_id=0)
    put(store, b"1", queue_id=1)
    files_of(store).fail_after(0)
    lost, stored = append(store, b"lost", queue_id=0), append(store, b"stored", queue_id=1)
    store.commit()
    assert lost.error is not None
    assert stored.is_stored
    assert bodies(store, queue_id=1) == [b"1", b"stored"]


async def test_a_lone_sender_is_answered_before_anything_is_counted(store: MessageStore) -> None:
    grown: list[int] = []
    store.committer.appended.add(lambda queue_log: grown.append(queue_log.end_offset))
    outcome = append(store, b"x")
    store.committer.read_ends()
    assert outcome.is_stored
    assert (grown, store.counters.total.messages) == ([], 0)
    store.committer.replies_sent()
    assert (grown, store.counters.total.messages) == ([1], 1)
    store.committer.replies_sent()
    assert grown == [1]


async def test_a_reader_that_fails_does_not_keep_other_queues_from_the_disk(
    store: MessageStore,
) -> None:
    def fail(_: object) -> None:
        raise AssertionError("a bug")

    store.committer.appended.add(fail)
    outcomes = [append(store, b"x", queue_id=0), append(store, b"y", queue_id=1)]
    with pytest.raises(AssertionError, match="a bug"):
        store.commit()
    assert all(outcome.is_stored for outcome in outcomes)


async def test_a_full_disk_refuses_by_measure_and_reads_go_on(
    store: MessageStore, data: Path
) -> None:
    put(store, b"x")
    uses = [DiskUse(1000, 990, 10), DiskUse(1000, 100, 900)]
    measure_disk(store, 90.0, 85.0, 5000, lambda _: uses[0])
    assert store.refusal is not None
    assert "diskSpaceWarningLevelRatio=90" in store.refusal
    assert bodies(store) == [b"x"]
    uses.pop(0)
    store.disk.check()
    assert store.refusal is None


async def test_a_full_disk_at_a_checkpoint_is_no_failure(store: MessageStore) -> None:
    """The index is written late: it finds no room, which must not end the broker for good."""
    put(store, b"x")
    files_of(store).fail_after(0)
    await store.checkpoint()
    assert store.disk.failed_reason is None
    assert store.refusal is not None
    store.disk.check()
    await store.checkpoint()
    assert store.metadata.queue_logs()[0].checkpoint.offset == 1


async def test_a_stop_on_a_full_disk_ends_and_is_not_clean(
    data: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(data, clock, files=FailingFiles())
    put(store, b"x")
    files_of(store).fail_after(0, failures=None)
    await store.close()
    assert "the stop is not clean" in caplog.text
    store = open_store(data, clock)
    assert not store.was_clean
    assert bodies(store) == [b"x"]
    await store.close()


async def test_what_a_failed_write_left_is_gone_after_the_stop(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock, files=FailingFiles())
    put(store, b"kept")
    await store.checkpoint()
    files_of(store).fail_after(0, errno.EIO, 1.0, failures=2)
    append(store, b"lost")
    store.commit()
    files_of(store).heal()
    await store.close()
    assert_sound(data)
    store = open_store(data, clock)
    assert bodies(store) == [b"kept"]
    await store.close()


async def test_metadata_without_room_refuses_new_queues(store: MessageStore) -> None:
    put(store, b"x")
    (pages,) = store.metadata._db.execute("PRAGMA page_count").fetchone()
    store.metadata._db.execute(f"PRAGMA max_page_count={pages}")
    outcomes = [append(store, b"new", queue_id=n) for n in range(1, 2000)]
    old = append(store, b"y")
    await store.drain()
    refused = [outcome for outcome in outcomes if not outcome.is_stored]
    assert old.is_stored
    assert refused
    assert all("database or disk is full" in str(outcome.error) for outcome in refused)
    store.metadata._db.execute(f"PRAGMA max_page_count={pages + 1000}")
    put(store, b"later", queue_id=1999)
    assert bodies(store, queue_id=1999) == [b"later"]
    assert bodies(store) == [b"x", b"y"]


# -- who may open a directory -----------------------------------------------------------------


async def test_a_directory_has_one_owner(store: MessageStore, data: Path) -> None:
    with pytest.raises(DirectoryInUseError, match=f"process {os.getpid()}"):
        open_store(data, store.clock)
    put(store, b"x")


async def test_a_refused_start_leaves_the_directory_free(data: Path, clock: VirtualClock) -> None:
    await open_store(data, clock).close()
    (data / "meta.db").write_bytes(b"no database" * 1000)
    for _ in range(2):
        with pytest.raises(FormatError, match=r"meta\.db: SQLite cannot read it"):
            open_store(data, clock)
    (data / "meta.db").unlink()
    await open_store(data, clock).close()


async def test_a_refused_recovery_leaves_the_directory_free(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    abandon(store)
    path = segment_files(data)[0]
    content = path.read_bytes()
    damage(path, 9)
    for _ in range(2):
        with pytest.raises(FormatError, match="format version"):
            open_store(data, clock)
    path.write_bytes(content)
    store = open_store(data, clock)
    assert bodies(store) == [b"x"]
    await store.close()


# -- ends without a stop ----------------------------------------------------------------------


async def test_everything_written_survives_the_end_of_the_process(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    sent = [b"%d" % index * 20 for index in range(50)]
    put(store, *sent[:30])
    await store.checkpoint()
    put(store, *sent[30:])
    abandon(store)
    store = open_store(data, clock)
    assert not store.was_clean
    assert bodies(store) == sent
    await store.close()
    store = open_store(data, clock)
    assert store.was_clean
    assert bodies(store) == sent
    await store.close()


async def test_a_crash_in_the_middle_of_a_crash_recovery_is_another_crash(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    put(store, *[bytes(300)] * 9)
    abandon(store)
    cut_file(segment_files(data)[-1], 100)
    for _ in range(3):
        store = open_store(data, clock)
        found = len(bodies(store))
        abandon(store)
    assert found == 8
    store = open_store(data, clock)
    await store.close()


def log_numbers(store: MessageStore) -> dict[tuple[str, int], int]:
    return {
        (known.topic, known.queue_id): store.queue_log(known.topic, known.queue_id).number
        for known in store.logs.table
    }


@pytest.mark.parametrize("was_stopped", [True, False])
async def test_lost_metadata_is_made_again_from_the_logs(
    data: Path, clock: VirtualClock, was_stopped: bool
) -> None:
    store = open_store(data, clock)
    put(store, *[b"a" * 100] * 20)
    put(store, b"b", topic="Other", queue_id=3)
    numbers = log_numbers(store)
    offset = messages(store.find_log("Other", 3))[0].physical_offset
    await store.close() if was_stopped else abandon(store)
    lose_metadata(data)
    store = open_store(data, clock)
    assert store.orphan_logs.topics == {TOPIC, "Other"}
    assert log_numbers(store) == numbers
    assert bodies(store) == [b"a" * 100] * 20
    assert next(decode_records(store.read_physical(offset))).body == b"b"
    put(store, b"new", queue_id=9)
    assert store.queue_log(TOPIC, 9).number not in numbers.values()
    store = await reopened(store)
    assert store.orphan_logs.topics == {TOPIC, "Other"}  # nobody has mended their settings yet
    store.orphan_logs.forget()
    store = await reopened(store)
    assert store.orphan_logs.topics == set()
    assert bodies(store, queue_id=9) == [b"new"]
    await store.close()


async def test_a_queue_that_was_just_begun_when_the_power_went_is_cleared_away(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    abandon(store)
    directory = queue_directory(data, queue_id=3)
    directory.mkdir()
    (directory / "00000000000000000000.idx").write_bytes(bytes(64))
    (directory / "00000000000000000000.log").write_bytes(bytes(64))
    queue_directory(data, queue_id=4).mkdir()
    store = open_store(data, clock)
    assert store.queue_ids(TOPIC) == [0]
    await store.close()
    assert not directory.exists()
    assert_sound(data)


async def test_directories_that_are_no_queues_are_left_alone(
    data: Path, clock: VirtualClock
) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    abandon(store)
    (data / "meta.db").unlink()
    for name in ("notes", "²", "empty/3"):
        (data / "queues" / TOPIC / name).mkdir(parents=True)
    store = open_store(data, clock)
    assert [(known.topic, known.queue_id) for known in store.logs.table] == [(TOPIC, 0)]
    await store.close()
    shutil.rmtree(data / "queues" / TOPIC / "empty")


async def test_a_copied_queue_is_not_taken_for_another(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    abandon(store)
    shutil.copytree(queue_directory(data), queue_directory(data, queue_id=1))
    with pytest.raises(FormatError, match="were they copied from elsewhere"):
        open_store(data, clock)
    shutil.rmtree(queue_directory(data, queue_id=1))
    await open_store(data, clock).close()


async def test_a_newer_schema_is_refused(data: Path, clock: VirtualClock) -> None:
    await open_store(data, clock).close()
    database = sqlite3.connect(data / "meta.db")
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(FormatError, match="schema version 99"):
        open_store(data, clock)
    assert "schema version 99" in check_directory(data).problems[0]
    database = sqlite3.connect(data / "meta.db")
    database.execute("PRAGMA user_version=1")
    database.close()


# -- deleting ---------------------------------------------------------------------------------


async def test_a_deleted_topic_leaves_nothing(store: MessageStore, data: Path) -> None:
    put(store, *[bytes(500)] * 5)
    put(store, b"y", queue_id=4)
    put(store, b"z", topic="Other")
    pending = append(store, b"pending")
    number = store.queue_log(TOPIC, 0).number
    await store.delete_topic(TOPIC)
    assert isinstance(pending.error, StoreError)
    assert "was deleted" in str(pending.error)
    assert store.find_log(TOPIC, 0) is None
    assert [p.name for p in (data / "queues").iterdir()] == ["Other"]
    assert store.read_physical(number << 40) == b""
    store.commit()
    await store.checkpoint()
    put(store, b"again")
    assert [m.queue_offset for m in messages(store.find_log(TOPIC, 0))] == [0]
    assert store.queue_log(TOPIC, 0).number > number


async def test_a_damaged_topic_can_be_deleted(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    put(store, *[bytes(900)] * 3)
    store = await reopened(store)
    segment_files(data)[1].unlink()
    (queue_directory(data) / "00000000000000000009.log.cut").write_bytes(b"set aside")
    with pytest.raises(FormatError):
        store.find_log(TOPIC, 0)
    await store.delete_topic(TOPIC)
    assert not (data / "queues" / TOPIC).exists()
    put(store, b"again")
    await store.close()


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("failing", range(4))
async def test_an_error_of_the_disk_while_a_queue_is_recovered_lasts_until_the_next_start(
    data: Path, clock: VirtualClock, failing: int, is_killed: bool
) -> None:
    """The others are served meanwhile, and nothing is lost."""
    store = open_store(data, clock)
    sent = [bytes((65 + n,)) * 300 for n in range(5)]
    put(store, *sent)
    put(store, b"other", topic="Other")
    abandon(store)
    files = FailingFiles()
    files.fail_after(failing, errno.EIO, part=0.3)
    store = open_store(data, clock, replace(SMALL, checks_all_logs=True), files)
    assert files.failed
    (error,) = store.damaged
    assert (error.topic, error.queue_id) == (TOPIC, 0)
    assert "Input/output error; look whether the disk is sound" in str(error)
    assert store.end_offset(TOPIC, 0) is None
    with pytest.raises(DamagedQueueError):
        store.queue_log(TOPIC, 0)
    assert bodies(store, "Other") == [b"other"]
    put(store, b"more", topic="Other")
    if is_killed:
        abandon(store)
    else:
        await store.close()
    store = open_store(data, clock)
    assert list(store.damaged) == []
    assert bodies(store) == sent
    assert bodies(store, "Other") == [b"other", b"more"]
    put(store, b"next")
    await store.close()
    assert_sound(data)


async def test_a_copy_of_a_running_store_can_be_opened(store: MessageStore, data: Path) -> None:
    put(store, *[bytes(400)] * 7)
    other = open_store(copy_of(data, "copy"), store.clock, SMALL)
    assert len(bodies(other)) == 7
    await other.close()
    assert_sound(other.directory)
