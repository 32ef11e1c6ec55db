"""A disk that remembers in which order it was changed and what it was told to keep.

It works on a real directory and keeps a journal beside it: each change is an `Op`, and so is each
sync. So one run shows every state that a crash may leave: that after each op, with whatever the
caller chooses of what was not synced by then (`left_by`).

What a power cut may do here: of the writes and truncations of a file since its last `sync` any may
be lost, wholly or partly, and leave zeros where the file grew; of the changes of a directory since
its last `sync_directory` the last ones may be lost (file systems keep their order within a
directory); SQLite's log file ends anywhere behind its last sync. A file's sync says nothing of its
name.
What a killed process leaves is everything.

A failed sync has the system forget what it could not write: it can still be read, but no later sync
brings it to the disk, unless it is written again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pocketmq.broker.store.files import Files

SECTOR = 512
DATABASE = "meta.db"


class Op(NamedTuple):
    """One change.

    Attributes:
        kind: link, mkdir, unlink, rmdir, rename (of names); write, cut (of content); sync, drop (a
            sync that failed), syncdir; db (a transaction).
        path: below the root.
        inode: of the file; for db the number of the database file's content.
        position: of a write or cut; for db the length of SQLite's log file.
        data: that was written; for rename the new name.
        generation: for db, which log file.
        now_ms: when.
    """

    kind: str
    path: str
    inode: int = 0
    position: int = 0
    data: bytes = b""
    generation: int = 0
    now_ms: int = 0


class Fault(NamedTuple):
    """An error at one point.

    Attributes:
        error: errno.
        part: share of the data that a failing write leaves.
    """

    error: int
    part: float = 0.5


class Part(NamedTuple):
    """What is left of a write: so many bytes of the file's length, and of the data these ranges."""

    size: int
    ranges: list[tuple[int, int]]

    @classmethod
    def first(cls, size: int) -> Part:
        """The first so many bytes."""
        return cls(size, [(0, size)])


class Left(NamedTuple):
    """What a crash left of everything below the root.

    Attributes:
        directories: in order.
        files: their content by name.
    """

    directories: list[str]
    files: Mapping[str, bytes | bytearray]

    def make(self, target: Path) -> None:
        """Makes a directory of it."""
        target.mkdir()
        for name in self.directories:
            (target / name).mkdir()
        for name, content in self.files.items():
            (target / name).write_bytes(content)

    def digest(self) -> bytes:
        """The same only for what a broker cannot tell apart."""
        digest = hashlib.blake2b("\n".join(self.directories).encode(), digest_size=16)
        for name in sorted(self.files):
            digest.update(b"\n%s %d\n" % (name.encode(), len(self.files[name])))
            digest.update(self.files[name])
        return digest.digest()


class Loss:
    """What a crash takes of that which was not synced: nothing, as when a process is killed."""

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        """What is left of a write of so many bytes; None for nothing.

        `is_last`: of all writes; `is_tail`: of all of its file.
        """
        return Part.first(size)

    def cut(self) -> bool:
        """Whether a truncation happened."""
        return True

    def entries(self, count: int) -> int:
        """How many of so many changes of a directory happened."""
        return count

    def log(self, low: int, high: int) -> int:
        """How long SQLite's log file is."""
        return high


class Everything(Loss):
    """The power goes, and nothing is left that was not synced."""

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        return None

    def cut(self) -> bool:
        return False

    def entries(self, count: int) -> int:
        return 0

    def log(self, low: int, high: int) -> int:
        return low


class Content(Loss):
    """Names and metadata are there, but nothing of the content, or zeros."""

    def __init__(self, *, as_zeros: bool) -> None:
        self._as_zeros = as_zeros

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        return Part(size, []) if self._as_zeros else None


class Torn(Loss):
    """Everything but a part of the last write is there."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        return Part.first(self._chance.randrange(size + 1) if is_last else size)


class Metadata(Loss):
    """Only transactions are lost."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def log(self, low: int, high: int) -> int:
        return self._chance.choice([low, self._chance.randint(low, high)])


class Anything(Loss):
    """Each change for itself is there, not there, or partly."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._kept = chance.random()

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        chance = self._chance
        if chance.random() < self._kept:
            return Part.first(size)
        how = chance.randrange(4)
        if how == 0:
            return None
        if how == 1:
            return Part(size, [])
        if how == 2 and is_tail:
            return Part.first(chance.randrange(size + 1))
        sectors = [(at, min(at + SECTOR, size)) for at in range(0, size, SECTOR)]
        return Part(size, [sector for sector in sectors if chance.random() < 0.5])

    def cut(self) -> bool:
        return self._chance.random() < self._kept

    def entries(self, count: int) -> int:
        return count if self._chance.random() < self._kept else self._chance.randint(0, count)

    def log(self, low: int, high: int) -> int:
        return high if self._chance.random() < self._kept else self._chance.randint(low, high)


class SimulatedDisk(Files):
    """See the module.

    Args:
        root: an existing directory; what is in it is on the disk.
        now_ms: the time.
        journal: of a killed process on whose disk this one goes on, with `images` and `logs`.

    Attributes:
        journal: everything since the root was on the disk.
        faults: errors by point; a point is a change that was tried.
        base_position: what is before it in the journal is what was there at first.
        points: how many there were.
        failed_syncs: where the journal ended when a sync failed, each time.
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
        self.base_files: dict[str, bytes] = {}
        self.base_directories: set[str] = set()
        self._inodes: dict[str, int] = {}
        self._inode_count = 0
        self.images: list[bytes] = []
        self.logs: list[bytes] = []
        self.kinds: list[str] = []
        self._take_base()
        self.base_position = len(self.journal)

    def _take_base(self) -> None:
        for path in sorted(self.root.rglob("*")):
            name = self._name(path)
            if path.is_dir():
                self.base_directories.add(name)
            elif path.name == DATABASE:
                self.keep_log(path)
                self.images.append(path.read_bytes())
                size = len(self.logs[0])
                self._log("db", name, position=size)
                self._log("syncdb", name, position=size)
            elif not path.name.startswith((DATABASE, "lock")):
                self.base_files[name] = path.read_bytes()
                self._inodes[name] = self._new_inode()

    def go_on(self, other: SimulatedDisk, position: int) -> None:
        """Takes over what a killed process did to the disk up to a position."""
        self.base_files, self.base_directories = other.base_files, other.base_directories
        self.journal, self.base_position = other.journal[:position], other.base_position
        self.images, self.logs = list(other.images), list(other.logs)
        self._inodes, self._inode_count = dict(other._base_inodes()), other._inode_count
        for op in self.journal:
            self._rename(op)

    def _base_inodes(self) -> dict[str, int]:
        return {name: number + 1 for number, name in enumerate(self.base_files)}

    def _rename(self, op: Op) -> None:
        if op.kind == "link":
            self._inodes[op.path] = op.inode
        elif op.kind == "unlink":
            self._inodes.pop(op.path, None)
        elif op.kind == "rename":
            _move(self._inodes, op.path, op.data.decode())

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

    def create(self, path: Path, data: bytes) -> None:
        if self.is_off:
            return
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

    def write(self, path: Path, position: int, data: bytes | bytearray | memoryview) -> None:
        if self.is_off:
            return
        fault = self._point("write", path)
        if fault is not None:
            part = bytes(data[: int(len(data) * fault.part)])
            if part:
                self._written(path, position, part)
            raise OSError(fault.error, os.strerror(fault.error), str(path))
        self._written(path, position, bytes(data))

    def _written(self, path: Path, position: int, data: bytes) -> None:
        super().write(path, position, data)
        name = self._name(path)
        self._log("write", name, inode=self._inodes[name], position=position, data=data)

    def truncate(self, path: Path, size: int) -> None:
        if self.is_off:
            return
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

    def note_transaction(self, path: Path, *, is_synced: bool) -> None:
        """A transaction is in SQLite's log file, or in the database itself."""
        image = path.read_bytes()
        if not self.images or self.images[-1] != image:
            self.images.append(image)
        wal = path.with_name(f"{path.name}-wal")
        size = wal.stat().st_size if wal.exists() else 0
        place = {"inode": len(self.images) - 1, "position": size, "generation": len(self.logs)}
        self._log("db", path, **place)
        if is_synced:
            self._log("syncdb", path, **place)

    def keep_log(self, path: Path) -> None:
        """SQLite's log file is about to be emptied."""
        wal = path.with_name(f"{path.name}-wal")
        self.logs.append(wal.read_bytes() if wal.exists() else b"")

    def cut_power(self, database: Path) -> None:
        """From now on nothing is done any more."""
        self.is_off = True
        self.keep_log(database)

    # -- what is left -------------------------------------------------------------------------

    def left_by(self, position: int, loss: Loss) -> Left:
        """What is found after a crash behind so many ops."""
        ops = self.journal[:position]
        names = self._surviving_names(ops, loss)
        contents = self._surviving_contents(ops, loss)
        directories = sorted(name for name, inode in names.items() if inode == 0)
        files: dict[str, bytes | bytearray] = {
            name: contents[inode] for name, inode in names.items() if inode
        }
        files.update(self._surviving_database(ops, loss, directories))
        return Left(directories, files)

    def _surviving_names(self, ops: list[Op], loss: Loss) -> dict[str, int]:
        """Inodes by name; 0 for a directory."""
        names: dict[str, int] = dict.fromkeys(self.base_directories, 0)
        names.update(self._base_inodes())
        changes: dict[str, list[Op]] = defaultdict(list)
        synced: dict[str, int] = defaultdict(int)
        for op in ops:
            if op.kind in ("link", "mkdir", "unlink", "rmdir", "rename"):
                changes[os.path.dirname(op.path)].append(op)
            elif op.kind == "syncdir":
                synced[op.path] = len(changes[op.path])
        kept = {
            directory: synced[directory] + loss.entries(len(done) - synced[directory])
            for directory, done in sorted(changes.items())
        }
        counts: dict[str, int] = defaultdict(int)
        for op in ops:
            if op.kind not in ("link", "mkdir", "unlink", "rmdir", "rename"):
                continue
            directory = os.path.dirname(op.path)
            counts[directory] += 1
            if counts[directory] > kept[directory]:
                continue
            if op.kind == "link":
                names[op.path] = op.inode
            elif op.kind == "mkdir":
                names[op.path] = 0
            elif op.kind == "rename":
                _move(names, op.path, op.data.decode())
            else:
                names.pop(op.path, None)
                if op.kind == "rmdir":  # a later one of that name is another
                    below = f"{op.path}/"
                    for name in [name for name in names if name.startswith(below)]:
                        del names[name]
        return {name: inode for name, inode in names.items() if _is_reachable(name, names)}

    def _surviving_contents(self, ops: list[Op], loss: Loss) -> dict[int, bytearray]:
        base = {number + 1: data for number, data in enumerate(self.base_files.values())}
        contents = {inode: bytearray(data) for inode, data in base.items()}
        by_inode: dict[int, list[int]] = defaultdict(list)
        durable: set[int] = set()
        dropped: set[int] = set()
        for index, op in enumerate(ops):
            if op.kind in ("write", "cut"):
                by_inode[op.inode].append(index)
            elif op.kind == "link":
                contents[op.inode] = bytearray()
            elif op.kind == "sync":
                durable.update(i for i in by_inode[op.inode] if i not in dropped)
            elif op.kind == "drop":
                dropped.update(i for i in by_inode[op.inode] if i not in durable)
        last = max((i for i, op in enumerate(ops) if op.kind == "write"), default=-1)
        for index, op in enumerate(ops):
            if op.kind not in ("write", "cut"):
                continue
            content = contents[op.inode]
            if op.kind == "cut":
                if index in durable or loss.cut():
                    del content[op.position :]
                    content.extend(bytes(op.position - len(content)))
                continue
            is_tail = index == by_inode[op.inode][-1]
            part: Part | None = Part.first(len(op.data))
            if index not in durable:
                part = loss.written(len(op.data), is_last=index == last, is_tail=is_tail)
            if part is not None:
                # What was never written reads as zeros; what is not overwritten stays as it was.
                content.extend(bytes(max(0, op.position + part.size - len(content))))
                for start, end in part.ranges:
                    content[op.position + start : op.position + end] = op.data[start:end]
        return contents

    def _surviving_database(
        self, ops: list[Op], loss: Loss, directories: list[str]
    ) -> dict[str, bytes]:
        transactions = [op for op in ops if op.kind == "db"]
        if not transactions:
            return {}
        low = 0
        for op in ops:
            if op.kind == "syncdb":
                low = op.position
        newest = transactions[-1]
        parent = os.path.dirname(newest.path)
        if parent and parent not in directories:
            return {}
        files = {newest.path: self.images[newest.inode]}
        log = self.logs[newest.generation] if newest.generation < len(self.logs) else b""
        size = loss.log(min(low, newest.position), newest.position)
        if size:
            files[f"{newest.path}-wal"] = log[:size]
        return files


def _move(names: dict[str, int], source: str, target: str) -> None:
    """Gives what has a name, and all that is below it, another one."""
    below = f"{source}/"
    for name in [name for name in names if name == source or name.startswith(below)]:
        names[target + name[len(source) :]] = names.pop(name)


def _is_reachable(name: str, names: dict[str, int]) -> bool:
    directory = os.path.dirname(name)
    while directory:
        if names.get(directory) != 0:
            return False
        directory = os.path.dirname(directory)
    return True


class SimulatedDatabase(sqlite3.Connection):
    """Tells the disk of each transaction; fails on its order, before anything is changed."""

    _disk: SimulatedDisk
    _path: Path
    _is_full = False

    def attach(self, disk: SimulatedDisk, path: Path) -> None:
        self._disk, self._path = disk, path
        super().execute("PRAGMA wal_autocheckpoint=0")
        super().execute("PRAGMA synchronous=OFF")  # the disk is simulated, so nobody needs to wait

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        word = sql.split(None, 1)[0].upper()
        is_pragma = word == "PRAGMA"
        text = sql.lower()
        if word in ("SELECT", "BEGIN", "ROLLBACK") or (self.in_transaction and word != "COMMIT"):
            return super().execute(sql, parameters)
        if is_pragma and "synchronous" in text:
            self._is_full = "full" in text
            return super().execute("PRAGMA synchronous")
        if is_pragma and "=" not in sql and "(" not in sql:
            return super().execute(sql, parameters)
        self._fail_if_due()
        is_checkpoint = "wal_checkpoint" in text
        if is_checkpoint:
            self._disk.keep_log(self._path)
        cursor = super().execute(sql, parameters)
        self._disk.note_transaction(self._path, is_synced=is_checkpoint or self._is_full)
        return cursor

    def close(self) -> None:
        """As SQLite does, moves what its log file holds to the database, and removes it."""
        if self._disk.is_off:
            super().close()
            return
        self._disk.keep_log(self._path)
        super().close()
        self._disk.note_transaction(self._path, is_synced=True)

    def executescript(self, sql: str) -> sqlite3.Cursor:
        self._fail_if_due()
        cursor = super().executescript(sql)
        self._disk.note_transaction(self._path, is_synced=False)
        return cursor

    def _fail_if_due(self) -> None:
        if self._disk.is_off:
            raise sqlite3.OperationalError("the power is off")
        fault = self._disk._point("db", self._path)
        if fault is not None:
            if fault.error == errno.ENOSPC:
                raise sqlite3.OperationalError("database or disk is full")
            raise sqlite3.OperationalError("disk I/O error")
