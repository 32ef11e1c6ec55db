"""What is left of a disk after a crash: of what was there at first, and of each `Op` since.

A file's sync says nothing of its name.

A failed sync has the system forget what it could not write: it can still be read, but no later sync
brings it to the disk, unless it is written again.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from support.crash.disk_losses import Loss, Part

_OF_NAMES = ("link", "mkdir", "unlink", "rmdir", "rename")


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


class Base(NamedTuple):
    """What was on a disk before the first op, without SQLite's files.

    Attributes:
        files: their content by name.
        directories: their names.
    """

    files: dict[str, bytes]
    directories: set[str]

    def inodes(self) -> dict[str, int]:
        """Of the files, by name."""
        return {name: number + 1 for number, name in enumerate(self.files)}


class SqliteFiles(NamedTuple):
    """What SQLite's files held; ops of kind db say which of it by number.

    Attributes:
        images: the content of the database file, each time it had changed.
        logs: that of its log file, each time before it was emptied.
    """

    images: list[bytes]
    logs: list[bytes]


def left_after(ops: list[Op], loss: Loss, base: Base, sqlite: SqliteFiles) -> Left:
    """What is found after a crash behind these ops."""
    names = _surviving_names(ops, loss, base)
    contents = _surviving_contents(ops, loss, base)
    directories = sorted(name for name, inode in names.items() if inode == 0)
    files: dict[str, bytes | bytearray] = {
        name: contents[inode] for name, inode in names.items() if inode
    }
    files.update(_surviving_database(ops, loss, sqlite, directories))
    return Left(directories, files)


def _surviving_names(ops: list[Op], loss: Loss, base: Base) -> dict[str, int]:
    """Inodes by name; 0 for a directory."""
    names: dict[str, int] = dict.fromkeys(base.directories, 0)
    names.update(base.inodes())
    changes: dict[str, list[Op]] = defaultdict(list)
    synced: dict[str, int] = defaultdict(int)
    for op in ops:
        if op.kind in _OF_NAMES:
            changes[os.path.dirname(op.path)].append(op)
        elif op.kind == "syncdir":
            synced[op.path] = len(changes[op.path])
    kept = {
        directory: synced[directory] + loss.entries(len(done) - synced[directory])
        for directory, done in sorted(changes.items())
    }
    counts: dict[str, int] = defaultdict(int)
    for op in ops:
        if op.kind not in _OF_NAMES:
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
            move_names(names, op.path, op.data.decode())
        else:
            names.pop(op.path, None)
            if op.kind == "rmdir":  # a later one of that name is another
                below = f"{op.path}/"
                for name in [name for name in names if name.startswith(below)]:
                    del names[name]
    return {name: inode for name, inode in names.items() if _is_reachable(name, names)}


def _surviving_contents(ops: list[Op], loss: Loss, base: Base) -> dict[int, bytearray]:
    contents = {inode: bytearray(base.files[name]) for name, inode in base.inodes().items()}
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
    ops: list[Op], loss: Loss, sqlite: SqliteFiles, directories: list[str]
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
    files = {newest.path: sqlite.images[newest.inode]}
    log = sqlite.logs[newest.generation] if newest.generation < len(sqlite.logs) else b""
    size = loss.log(min(low, newest.position), newest.position)
    if size:
        files[f"{newest.path}-wal"] = log[:size]
    return files


def move_names(names: dict[str, int], source: str, target: str) -> None:
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
