from __future__ import annotations

import stat
from pathlib import Path

import pytest
from support.store.stores import damage

from pocketmq.broker.backup.directory import Backup, BackupDirectory, LogCopy
from pocketmq.broker.backup.packs import Run, pack_path
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.protocol.errors import OperatingError, UsageError


def backup_of(number: int, *packs: int) -> Backup:
    runs = [Run(pack, 12, 100, 0, 0, 0, 90, 1, 0) for pack in packs]
    log = LogCopy(1, "T", 0, 90, 1, 0, runs)
    return Backup(number, "c", "b", "", 0, 1000, 5, 6, 7, [("topics", [("T", "{}")])], [log], [])


@pytest.fixture
def directory(tmp_path: Path) -> BackupDirectory:
    directory = BackupDirectory(tmp_path / "of" / "broker-a")
    with directory.held(changes=True):
        directory.sweep()
    return directory


def test_what_was_added_is_read_again(directory: BackupDirectory) -> None:
    for number in (1, 2):
        directory.add(backup_of(number, number))
    assert directory.numbers() == [1, 2]
    assert directory.read() == backup_of(2, 2)
    assert directory.read(1) == backup_of(1, 1)
    with pytest.raises(UsageError, match=r"the backup 3 is not in .*there are: 1, 2"):
        directory.read(3)


def test_nobody_else_may_look_into_it(directory: BackupDirectory) -> None:
    directory.add(backup_of(1))
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.backup_path(1).stat().st_mode) == 0o600


def test_packs_that_a_backup_has_stay(directory: BackupDirectory) -> None:
    for pack in (1, 2, 3, 4):
        pack_path(directory.path, pack).write_bytes(b"x")
    directory.add(backup_of(1, 1, 2))
    directory.add(backup_of(2, 2, 3))
    half_written = directory.backup_path(3).with_suffix(".new")
    half_written.write_bytes(b"PMQBKUP")
    directory.sweep()
    assert sorted(p.stem for p in (directory.path / "packs").iterdir()) == [
        "00000001", "00000002", "00000003",
    ]  # fmt: skip
    assert not half_written.exists()
    assert directory.remove_before(1) == [1]
    directory.sweep()
    assert directory.next_pack() == 4
    assert not pack_path(directory.path, 1).exists()


def test_nothing_is_swept_beside_a_damaged_backup(directory: BackupDirectory) -> None:
    pack_path(directory.path, 1).write_bytes(b"x")
    directory.add(backup_of(1, 1))
    damage(directory.backup_path(1), 30)
    with pytest.raises(FormatError, match="its checksum is wrong"):
        directory.sweep()
    assert pack_path(directory.path, 1).exists()


def test_another_version_is_refused(directory: BackupDirectory) -> None:
    directory.add(backup_of(1))
    damage(directory.backup_path(1), 8, b"\0\0\0\2")
    with pytest.raises(FormatError, match="it is of format version 2, this PocketMQ knows 1"):
        directory.read()


def test_it_is_used_by_many_or_changed_by_one(directory: BackupDirectory) -> None:
    again = BackupDirectory(directory.path)
    with directory.held(changes=False), again.held(changes=False):
        pass
    with (
        directory.held(changes=False),
        pytest.raises(OperatingError, match="wait until it is done"),
        again.held(changes=True),
    ):
        pass


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    for changes in (False, True):
        with (
            pytest.raises(UsageError, match="no directory of backups"),
            BackupDirectory(tmp_path).held(changes=changes),
        ):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
