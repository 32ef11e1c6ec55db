from __future__ import annotations

from pathlib import Path

import pytest
from support.store.backups import AskedStore, copied, restored_bodies
from support.store.stores import TOPIC, assert_sound, open_store, put

from pocketmq.broker.backup import restoring
from pocketmq.broker.backup.copying import back_up
from pocketmq.broker.backup.restoring import restore
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.protocol.errors import UsageError
from pocketmq.testing.clock import VirtualClock


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


async def test_a_directory_that_a_killed_restore_left_is_made_anew(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"x")
    await copied(store, backups, clock)
    unfinished = tmp_path / f"new{restoring.UNFINISHED}"
    (unfinished / "queues").mkdir(parents=True)
    (unfinished / "queues" / "old").write_text("x")
    assert await restored_bodies(backups, tmp_path / "new", clock) == [b"x"]
    assert not unfinished.exists()
    await store.close()


async def test_an_empty_directory_is_replaced_and_a_mount_point_refused(
    tmp_path: Path, backups: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"x")
    await copied(store, backups, clock)
    (tmp_path / "new").mkdir()
    assert await restored_bodies(backups, tmp_path / "new", clock) == [b"x"]
    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda self: True)
    with pytest.raises(UsageError, match="name a directory in it"):
        await restore(backups, tmp_path / "mounted", clock)
    await store.close()


async def test_much_is_brought_to_the_disk_now_and_then(
    tmp_path: Path, backups: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "ITEM_SIZE_MAX", 300)
    monkeypatch.setattr(restoring, "FLUSHED_SIZE", 500)
    store = open_store(tmp_path / "data", clock)
    sent = [b"%d" % i * 100 for i in range(20)]
    for queue_id in range(3):
        put(store, *sent, queue_id=queue_id)
    await copied(store, backups, clock)
    assert await restored_bodies(backups, tmp_path / "new", clock, queue_id=2) == sent
    await store.close()


async def test_groups_do_not_stand_behind_the_end_of_a_queue(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"x")
    store.metadata.save_consumer_offsets([("g", TOPIC, 0, 1), ("h", TOPIC, 0, 5)])
    await copied(store, backups, clock)
    await restore(backups, tmp_path / "new", clock)
    again = open_store(tmp_path / "new", clock)
    assert again.metadata.consumer_offsets() == [("g", TOPIC, 0, 1), ("h", TOPIC, 0, 1)]
    await again.close()
    await store.close()


async def test_numbers_of_deleted_logs_are_not_given_out_again(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"x")
    put(store, b"x", topic="Other")
    await store.delete_topic("Other")
    await copied(store, backups, clock)
    await restore(backups, tmp_path / "new", clock)
    again = open_store(tmp_path / "new", clock)
    put(again, b"y", topic="Third")
    assert {known.number for known in again.logs.table} == {1, 3}
    await again.close()
    await store.close()


async def test_the_history_of_a_log_is_kept_unless_the_directory_leaves_its_set(
    tmp_path: Path, backups: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"0")
    epochs = LogEpochs(store.metadata)
    for epoch in (3, 5):
        log = store.find_log(TOPIC, 0)
        assert log is not None
        epochs.begin([(log.number, epoch, log.written_position)])
        put(store, b"%d" % epoch)
    history = store.metadata.log_epochs()
    assert [row[:2] for row in history] == [(1, 3), (1, 5)]
    await back_up(backups, AskedStore(store), clock)
    for name, leave_set, expected in (("member", False, history), ("single", True, [])):
        await restore(backups, tmp_path / name, clock, leave_set=leave_set)
        assert_sound(tmp_path / name)
        again = open_store(tmp_path / name, clock)
        assert again.metadata.log_epochs() == expected
        await again.close()
    await store.close()
