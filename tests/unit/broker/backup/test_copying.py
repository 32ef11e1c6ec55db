from __future__ import annotations

from pathlib import Path

import pytest
from support.store.backups import NAMES, AskedStore, copied, restored_bodies
from support.store.stores import TOPIC, open_store, put

from pocketmq.broker.backup import copying, source
from pocketmq.broker.backup.checking import check_backups
from pocketmq.broker.backup.copying import BackupOptions, back_up
from pocketmq.broker.backup.directory import BackupDirectory
from pocketmq.broker.backup.wire import Gone, encode_parts
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.testing.clock import VirtualClock


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


async def test_a_store_without_messages_is_backed_up(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    report = await copied(store, backups, clock)
    assert (report.backup.number, report.backup.logs, report.incomplete) == (1, [], False)
    assert await restored_bodies(backups, tmp_path / "new", clock) == []
    await store.close()


async def test_each_backup_joins_what_it_copies_of_a_log_into_one_run(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, *(b"%d" % i * 100 for i in range(30)))
    first = (await copied(store, backups, clock)).backup
    assert len(store.logs.open_logs()[0].segments) > 3
    ((copy),) = first.logs
    assert len(copy.runs) == 1
    put(store, b"more")
    second = (await copied(store, backups, clock)).backup
    assert second.logs[0].runs[0] == copy.runs[0]
    assert len(second.logs[0].runs) == 2
    expected = [b"%d" % i * 100 for i in range(30)] + [b"more"]
    assert await restored_bodies(backups, tmp_path / "new", clock) == expected
    assert await restored_bodies(backups, tmp_path / "old", clock, number=1) == expected[:-1]
    await store.close()


async def test_records_behind_the_snapshot_are_left_for_the_next_backup(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"before")
    asked = AskedStore(store)

    async def send() -> None:
        put(store, b"after")
        put(store, b"other", queue_id=1)

    asked.before_logs = send  # type: ignore[method-assign]
    await back_up(backups, asked, clock)
    assert await restored_bodies(backups, tmp_path / "new", clock) == [b"before"]
    await store.close()


async def test_small_answers_and_packs_make_no_difference(
    tmp_path: Path, backups: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PIECE_SIZE_MAX", 300)
    monkeypatch.setattr(source, "ANSWER_SIZE_MAX", 700)
    monkeypatch.setattr(source, "WARMED_SIZE_MIN", 1)
    monkeypatch.setattr(copying, "WANTS_MAX", 2)
    monkeypatch.setattr("pocketmq.broker.backup.packs.PACK_SIZE_MAX", 2000)
    store = open_store(tmp_path / "data", clock)
    sent = [b"%d" % i * 50 for i in range(20)]
    for queue_id in range(5):
        put(store, *sent, queue_id=queue_id)
    report = await copied(store, backups, clock)
    assert len(report.backup.packs) > 5
    assert check_backups(backups).problems == []
    for queue_id in range(5):
        target = tmp_path / f"new-{queue_id}"
        assert await restored_bodies(backups, target, clock, queue_id=queue_id) == sent
    await store.close()


async def test_runs_that_a_log_does_not_have_any_more_are_copied_again(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"common")
    await copied(store, backups, clock)
    put(store, b"lost-1")
    await copied(store, backups, clock)
    put(store, b"lost-2", b"lost-3")
    await copied(store, backups, clock)
    log = store.find_log(TOPIC, 0)
    assert log is not None
    position, _ = log.written_record(1)
    log.cut(position)
    await clock.advance(1)
    put(store, b"new--1", b"new--2", b"new--3", b"new--4")
    report = await copied(store, backups, clock)
    assert len(report.backup.logs[0].runs) == 2, "the run of the common record stays"
    assert await restored_bodies(backups, tmp_path / "new", clock) == [
        b"common", b"new--1", b"new--2", b"new--3", b"new--4",
    ]  # fmt: skip
    await store.close()


async def test_what_expires_during_a_backup_is_left_out(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, *(b"%d" % i * 300 for i in range(8)))
    log = store.find_log(TOPIC, 0)
    assert log is not None
    asked = AskedStore(store)

    async def expire() -> None:
        log.begin_segment(clock.now_ms())
        store.committer.unsynced[log] = None
        await store.checkpoints.take_all()
        while log.has_spare_segment:
            log.drop_oldest_segment()

    asked.before_logs = expire  # type: ignore[method-assign]
    report = await back_up(backups, asked, clock)
    assert (report.backup.logs[0].runs, report.backup.logs[0].offset) == ([], 8)
    assert await restored_bodies(backups, tmp_path / "new", clock) == []
    await store.close()


async def test_a_backup_waits_after_each_answer_for_as_long_as_its_rate_asks(
    tmp_path: Path, backups: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ANSWER_SIZE_MAX", 1)
    store = open_store(tmp_path / "data", clock)
    put(store, *(bytes(900) for _ in range(3)))
    standing, waits = VirtualClock(), list[float]()

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(standing, "sleep", note)
    report = await back_up(backups, AskedStore(store), standing, BackupOptions(rate=1000))
    size = report.backup.copied_size
    assert waits == pytest.approx([size / 3000, 2 * size / 3000, size / 1000])
    await store.close()


async def test_old_backups_go_with_the_packs_that_only_they_have(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    for index in range(4):
        if index:
            await store.delete_topic(TOPIC)
        put(store, b"%d" % index)
        report = await copied(store, backups, clock, options=BackupOptions(keep=2))
    assert report.removed == [2]
    assert BackupDirectory(backups).numbers() == [3, 4]
    assert sorted(p.name for p in (backups / "packs").iterdir()) == [
        "00000003.pack", "00000004.pack",
    ]  # fmt: skip
    await store.close()


async def test_a_broker_of_another_name_is_refused(
    tmp_path: Path, backups: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "data", clock)
    await copied(store, backups, clock)
    monkeypatch.setitem(NAMES, "broker_name", "other")
    with pytest.raises(UsageError, match="has backups of broker b of cluster c"):
        await copied(store, backups, clock)
    await store.close()


async def test_what_nobody_asked_for_is_an_error_and_leaves_nothing(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"x")
    asked = AskedStore(store)

    async def logs(snapshot: str, wants: bytes) -> tuple[int, bytes]:
        return 1, encode_parts([Gone(99)])

    asked.logs = logs  # type: ignore[method-assign]
    with pytest.raises(ContentError, match="log 99 unasked"):
        await back_up(backups, asked, clock)
    assert BackupDirectory(backups).numbers() == []
    await copied(store, backups, clock)
    assert len(list((backups / "packs").iterdir())) == 1, "an interrupted backup's packs are gone"
    await store.close()
