"""A disk that remembers in which order it was changed and what it was told to keep.

It works on a real directory and keeps a journal beside it: each change is an `Op`, and so is each
sync. So one run shows every state that a crash may leave: that after each op, with whatever the
caller chooses of what was not synced by then (`left_by`).
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.crash.disk_losses import Loss
from support.crash.disk_remains import Base, Left, Op, SqliteFiles, left_after, move_names
from support.crash.simulated_database import SimulatedDatabase

from pocketmq.broker.store.disk.files import Files

DATABASE = "meta.db"


class Fault(NamedTuple):
    """An error at one point.

    Attributes:
        error: errno.
        part: share of the data that a failing write leaves.
    """

    error: int
    part: float = 0.5


class SimulatedDisk(Files):
    """See the module.

    Args:
        root: an existing directory; what is in it is on the disk.
        now_ms: the time.

    Attributes:
        journal: everything since the root was on the disk.
        faults: errors by point; a point is a change that was tried.
        base: what was there at first, without SQLite's files.
        base_position: what is before it in the journal is what was there at first.
        points: how many there were.
        failed_syncs: where the journal ended when a sync failed, each time.
        sqlite: what SQLite's files held, at first and since.
    """

    def __init__(self, root: Path, now_ms: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self.root = root
        self.now_ms = now_ms
        self.journal: list[Op] = []
        self.faults: dict[int, Fault] = {}
        self.hit: list[tuple[str, str]] = []
        self.points = 0
        self.is_off = False
        self.failed_syncs: list[int] = []
        self.base = Base({}, set())
        self._inodes: dict[str, int] = {}
        self._inode_count = 0
        self.sqlite = SqliteFiles([], [])
        self.kinds: list[str] = []
        self._take_base()
        self.base_position = len(self.journal)

    def _take_base(self) -> None:
        for path in sorted(self.root.rglob("*")):
            name = self._name(path)
            if path.is_dir():
                self.base.directories.add(name)
            elif path.name == DATABASE:
                self.keep_log(path)
                self.sqlite.images.append(path.read_bytes())
                size = len(self.sqlite.logs[0])
                self._log("db", name, position=size)
                self._log("syncdb", name, position=size)
            elif not path.name.startswith((DATABASE, "lock")):
                self.base.files[name] = path.read_bytes()
                self._inodes[name] = self._new_inode()

    def go_on(self, other: SimulatedDisk, position: int) -> None:
        """Takes over what a killed process did to the disk up to a position."""
        self.base, self.base_position = other.base, other.base_position
        self.journal = other.journal[:position]
        self.sqlite = SqliteFiles(list(other.sqlite.images), list(other.sqlite.logs))
        self._inodes, self._inode_count = self.base.inodes(), other._inode_count
        for op in self.journal:
            self._rename(op)

    def _rename(self, op: Op) -> None:
        if op.kind == "link":
            self._inodes[op.path] = op.inode
        elif op.kind == "unlink":
            self._inodes.pop(op.path, None)
        elif op.kind == "rename":
            move_names(self._inodes, op.path, op.data.decode())

    def _new_inode(self) -> int:
        self._inode_count += 1
        return self._inode_count

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root)) if path != self.root else ""

    def _point(self, kind: str, path: Path | str) -> Fault | None:
        """The fault that is due here."""
        fault = self.faults.get(self.points)
        self.points += 1
        self.kinds.append(kind)
        if fault is not None:
            self.hit.append((kind, str(path)))
        return fault

    def _check(self, kind: str, path: Path) -> None:
        fault = self._point(kind, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), str(path))

    def _log(self, kind: str, path: Path | str, **fields: Any) -> None:
        name = path if isinstance(path, str) else self._name(path)
        op = Op(kind, name, now_ms=self.now_ms(), **fields)
        self.journal.append(op)
        self._rename(op)

    @property
    def position(self) -> int:
        """How many ops there were."""
        return len(self.journal)

    # -- the seam -----------------------------------------------------------------------------

    def make_directory(self, path: Path) -> None:
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for made in reversed(missing):
            if self.is_off:
                return
            self._check("mkdir", made)
            made.mkdir()
            self._log("mkdir", made)
            self.sync_directory(made.parent)

    def create(self, path: Path | str, data: bytes) -> None:
        if self.is_off:
            return
        path = Path(path)
        missing = [p for p in path.parents if not p.is_dir()]
        for parent in reversed(missing):
            self._check("mkdir", parent)
            parent.mkdir()
            self._log("mkdir", parent)
        self._check("create", path)
        name = self._name(path)
        if name in self._inodes:
            self._log("cut", name, inode=self._inodes[name], position=0)
        else:
            self._log("link", name, inode=self._new_inode())
        super().create(path, data)

    def write(self, path: Path | str, position: int, data: bytes | bytearray | memoryview) -> None:
        if self.is_off:
            return
        path = Path(path)
        fault = self._point("write", path)
        if fault is not None:
            part = bytes(data[: int(len(data) * fault.part)])
            if part:
                self._written(path, position, part)
            raise OSError(fault.error, os.strerror(fault.error), str(path))
        self._written(path, position, bytes(data))

    def write_parts(
        self, path: Path | str, position: int, parts: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        self.write(path, position, b"".join(parts))

    def _written(self, path: Path, position: int, data: bytes) -> None:
        super().write(path, position, data)
        name = self._name(path)
        self._log("write", name, inode=self._inodes[name], position=position, data=data)

    def truncate(self, path: Path | str, size: int) -> None:
        if self.is_off:
            return
        path = Path(path)
        self._check("cut", path)
        super().truncate(path, size)
        name = self._name(path)
        self._log("cut", name, inode=self._inodes[name], position=size)

    def sync(self, path: Path) -> None:
        if self.is_off:
            return
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path.name.startswith(DATABASE):
            self._sync_database(path)
            return
        name = self._name(path)
        inode = self._inodes[name]
        fault = self._point("sync", path)
        if fault is not None:
            self.failed_syncs.append(len(self.journal))
            self._log("drop", name, inode=inode)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        self._log("sync", name, inode=inode)

    def _sync_database(self, log_path: Path) -> None:
        """SQLite's log file is brought to the disk by somebody else."""
        if self._point("sync", log_path) is not None:
            self.failed_syncs.append(len(self.journal))
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(log_path))
        newest = next(op for op in reversed(self.journal) if op.kind == "db")
        self.journal.append(newest._replace(kind="syncdb", now_ms=self.now_ms()))

    def sync_directory(self, path: Path) -> None:
        if self.is_off:
            return
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path != self.root and self.root not in path.parents:
            return  # above what is simulated
        if self._point("syncdir", path) is not None:
            self.failed_syncs.append(len(self.journal))
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        self._log("syncdir", path)

    def delete(self, path: Path) -> None:
        if self.is_off:
            return
        if path.exists():
            self._check("unlink", path)
            self._log("unlink", path)
        super().delete(path)

    def delete_directory(self, path: Path) -> None:
        if path.is_dir():
            for entry in sorted(path.iterdir()):
                self.delete(entry)
            self.remove_directory(path)

    def remove_directory(self, path: Path) -> None:
        if self.is_off:
            return
        self._check("rmdir", path)
        super().remove_directory(path)
        self._log("rmdir", path)

    def set_aside(self, path: Path) -> Path:
        if self.is_off:
            return path
        self._check("rename", path)
        target = super().set_aside(path)
        self._log("rename", path, data=self._name(target).encode())
        return target

    def replace(self, source: Path, target: Path) -> None:
        if self.is_off:
            return
        self._check("rename", source)
        super().replace(source, target)
        self._log("rename", source, data=self._name(target).encode())

    def move_directory(self, source: Path, target: Path) -> None:
        if self.is_off:
            return
        self._check("rename", source)
        super().move_directory(source, target)
        self._log("rename", source, data=self._name(target).encode())

    def delete_unopened(self, path: Path) -> None:
        self.delete(path)

    # -- SQLite -------------------------------------------------------------------------------

    def database(self, path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(
            path, isolation_level=None, cached_statements=64, factory=SimulatedDatabase
        )
        database.attach(self, path)
        return database

    def check_transaction(self, path: Path) -> None:
        """A transaction is about to be made.

        Raises:
            sqlite3.OperationalError: the power is off, or a fault is due.
        """
        if self.is_off:
            raise sqlite3.OperationalError("the power is off")
        fault = self._point("db", path)
        if fault is not None:
            if fault.error == errno.ENOSPC:
                raise sqlite3.OperationalError("database or disk is full")
            raise sqlite3.OperationalError("disk I/O error")

    def note_transaction(self, path: Path, *, is_synced: bool) -> None:
        """A transaction is in SQLite's log file, or in the database itself."""
        image = path.read_bytes()
        images, logs = self.sqlite
        if not images or images[-1] != image:
            images.append(image)
        wal = path.with_name(f"{path.name}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        place = {"inode": len(images) - 1, "position": size, "generation": len(logs)}
        self._log("db", path, **place)
        if is_synced:
            self._log("syncdb", path, **place)

    def keep_log(self, path: Path) -> None:
        """SQLite's log file is about to be emptied."""
        wal = path.with_name(f"{path.name}-wal")
        self.sqlite.logs.append(wal.read_bytes() if wal.exists() else b"")

    def cut_power(self, database: Path) -> None:
        """From now on nothing is done any more."""
        self.is_off = True
        self.keep_log(database)

    # -- what is left -------------------------------------------------------------------------

    def left_by(self, position: int, loss: Loss) -> Left:
        """What is found after a crash behind so many ops."""
        return left_after(self.journal[:position], loss, self.base, self.sqlite)
