"""A directory of backups: which there are, and the files that they share.

    lock                         held by who works with the directory
    backups/00000001.backup      what one backup has, and in which packs; written last, by a rename
    packs/00000001.pack          records, written once

A backup has all packs that its file names, also those that earlier backups wrote. So the first one
is full, each further one copies what is new, and any may be removed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from isal.isal_zlib import crc32

from pocketmq.broker.backup.packs import DAMAGED, Run, pack_path
from pocketmq.broker.backup.wire import Page
from pocketmq.broker.store.disk.errors import DirectoryInUseError, FormatError
from pocketmq.broker.store.disk.lock import DirectoryLock
from pocketmq.protocol.errors import OperatingError, UsageError

BACKUP_VERSION = 1
"""The version of the files of backups; readers refuse another one."""

_MAGIC = b"PMQBKUP\n"
_HEADER = struct.Struct(">8sII")


class LogCopy(msgspec.Struct, array_like=True, gc=False):
    """What a backup has of a log.

    Attributes:
        number: of the log.
        position, offset: behind the last record.
        timestamp: the store time of the last record.
        runs: where the records are; none if retention had removed all.
    """

    number: int
    topic: str
    queue_id: int
    position: int
    offset: int
    timestamp: int
    runs: list[Run]


class Backup(msgspec.Struct):
    """What a backup has.

    Attributes:
        number: counted from 1; numbers are not used again while later ones are there.
        cluster_name, broker_name: whose it is.
        set_id, epoch: of the broker set; empty and 0 without one.
        segment_size: bytes of records in one file of the broker's logs.
        taken_ms: when the snapshot was taken: it has everything that was acknowledged before.
        duration_ms: how long the backup took.
        copied_size: bytes that it copied; the rest it has from earlier ones.
        tables: the rows of the metadata.
        logs: the logs.
        notes: what is not as it should be.
    """

    number: int
    cluster_name: str
    broker_name: str
    set_id: str
    epoch: int
    segment_size: int
    taken_ms: int
    duration_ms: int
    copied_size: int
    tables: Page
    logs: list[LogCopy]
    notes: list[str]

    @property
    def packs(self) -> set[int]:
        """The numbers of the packs that it needs."""
        return {run.pack for copy in self.logs for run in copy.runs}

    @property
    def size(self) -> int:
        """Bytes in packs that it needs."""
        return sum(run.size for copy in self.logs for run in copy.runs)

    @property
    def records_size(self) -> int:
        """Bytes of records, without their index entries."""
        return sum(run.end_position - run.position for copy in self.logs for run in copy.runs)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Backup).decode


class BackupDirectory:
    """The backups of one broker.

    Args:
        path: of the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._backups = path / "backups"

    @contextmanager
    def held(self, *, changes: bool) -> Iterator[None]:
        """Keeps others from changing the directory, or from using it while it is changed.

        Raises:
            OperatingError: another process has it.
            UsageError: it is no directory of backups, and not an empty one that could become one.
        """
        self._check_kind(may_be_new=changes)
        try:
            if changes and not self.path.exists():
                self.path.mkdir(mode=0o700, parents=True)
            lock = DirectoryLock(self.path, read_only=not changes)
        except DirectoryInUseError as e:
            raise OperatingError(
                f"process {e.pid or 'unknown'} works with the backups in {self.path}: wait "
                f"until it is done"
            ) from None
        try:
            if changes:
                self._backups.mkdir(mode=0o700, exist_ok=True)
            yield
        finally:
            lock.release()

    def _check_kind(self, *, may_be_new: bool) -> None:
        if self._backups.is_dir():
            return
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        if not may_be_new:
            raise UsageError(f"{self.path} is no directory of backups: it has no backups/")
        if names - {"lock"}:
            raise UsageError(
                f"{self.path} is not empty and no directory of backups: name another one"
            )

    def numbers(self) -> list[int]:
        """Returns the numbers of the backups, the oldest first."""
        found = [path.stem for path in self._backups.glob("*.backup")]
        return sorted(int(stem) for stem in found if stem.isdecimal())

    def backup_path(self, number: int) -> Path:
        """The file of a backup."""
        return self._backups / f"{number:08d}.backup"

    def read(self, number: int | None = None) -> Backup:
        """Reads what a backup has, by default the newest.

        Raises:
            UsageError: there is none, or none with the number.
            FormatError: its file is damaged, or of another version.
        """
        numbers = self.numbers()
        if not numbers or number not in (None, *numbers):
            known = ", ".join(map(str, numbers)) or "none"
            wanted = "a backup" if number is None else f"the backup {number}"
            raise UsageError(f"{wanted} is not in {self.path}; there are: {known}")
        path = self.backup_path(numbers[-1] if number is None else number)
        data = path.read_bytes()
        magic, version, crc = _HEADER.unpack(data[: _HEADER.size].ljust(_HEADER.size, b"\0"))
        if magic != _MAGIC:
            raise FormatError(path, f"it does not begin with the mark of a backup: {DAMAGED}")
        if version != BACKUP_VERSION:
            raise FormatError(
                path,
                f"it is of format version {version}, this PocketMQ knows {BACKUP_VERSION}: use the "
                f"version that wrote it",
            )
        content = data[_HEADER.size :]
        if crc32(content) != crc:
            raise FormatError(path, f"its checksum is wrong, it is damaged: {DAMAGED}")
        try:
            return _decode(content)
        except msgspec.MsgspecError as e:
            raise FormatError(path, f"it cannot be read ({e}): {DAMAGED}") from e

    def add(self, backup: Backup) -> None:
        """Writes the file of a backup, whose packs are on the disk; then it is there, and whole.

        Raises:
            OSError: it may not be there.
        """
        _sync_directory(self.path / "packs")
        content = _encode(backup)
        path = self.backup_path(backup.number)
        new = path.with_suffix(".new")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(_HEADER.pack(_MAGIC, BACKUP_VERSION, crc32(content)))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
        _sync_directory(self._backups)
        _sync_directory(self.path)

    # -- packs --------------------------------------------------------------------------------

    def next_pack(self) -> int:
        """A number that no pack has."""
        found = [path.stem for path in (self.path / "packs").glob("*.pack")]
        return max((int(stem) for stem in found if stem.isdecimal()), default=0) + 1

    def remove_before(self, keep: int) -> list[int]:
        """Removes all backups but the newest ones; returns the numbers of those removed.

        Args:
            keep: so many stay.
        """
        removed = self.numbers()[:-keep]
        for number in removed:
            self.backup_path(number).unlink()
        return removed

    def sweep(self) -> None:
        """Removes packs that no backup has, such as those of one that was interrupted.

        Raises:
            FormatError: a backup is damaged, so that nobody knows what it has; nothing is removed.
        """
        packs = self.path / "packs"
        packs.mkdir(mode=0o700, exist_ok=True)
        needed = {pack for number in self.numbers() for pack in self.read(number).packs}
        kept = {pack_path(self.path, pack).name for pack in needed}
        for path in packs.glob("*.pack"):
            if path.name not in kept:
                path.unlink()
        for path in self._backups.glob("*.new"):
            path.unlink()


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
