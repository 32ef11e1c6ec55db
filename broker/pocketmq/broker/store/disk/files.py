"""The store's seam to the disk: everything that it changes there goes through `Files`.

Tests replace it by one that fails on order, or that knows what a power cut would leave.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from pocketmq.broker.store.disk.boot import boot_id
from pocketmq.broker.store.disk.freeing import Freeing, remove_file

OPEN_FILES_MAX = 1024
"""Handles kept open; the least recently used one is closed for the next."""

PARTS_MAX = 1024
"""Parts that the system takes in one call (IOV_MAX)."""

BUSY_TIMEOUT_S = 2.0
"""How long another program, such as a backup, may keep a SQLite file locked."""


_CREATE = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC

_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter


class Files:
    """Reads and writes files by path, with a bounded number of open handles.

    Text serves as a path where it is asked for often: to make a `Path` takes longer than a read.

    Not for several threads, except `sync`.

    Args:
        open_files_max: so many handles at the most.
        read_only: whether files are opened for reading only.

    Attributes:
        freeing: the space of deleted files.
        boot_id: names the run of the system whose memory holds what is not synced.
    """

    def __init__(self, open_files_max: int = OPEN_FILES_MAX, *, read_only: bool = False) -> None:
        self._open_files_max = open_files_max
        self._mode = os.O_RDONLY if read_only else os.O_RDWR
        self._handles: OrderedDict[str, int] = OrderedDict()  # text hashes faster than Path
        self.freeing = Freeing()
        self.boot_id = boot_id()
        self._connection_class = sqlite3.Connection

    @property
    def open_count(self) -> int:
        """Handles that are open now; each sync that is under way has another one."""
        return len(self._handles)

    def make_directory(self, path: Path) -> None:
        """Makes a directory, and those above it, if they are missing; they are on the disk then.

        Raises:
            OSError: it cannot be made, or a file is in its place.
        """
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for made in reversed(missing):
            made.mkdir()
            self.sync_directory(made.parent)

    def database(self, path: Path) -> sqlite3.Connection:
        """Opens the SQLite file of a path, made if it is missing; each statement is a transaction.

        Raises:
            sqlite3.OperationalError: it cannot be opened or made.
        """
        return sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, cached_statements=64,
            factory=self._connection_class,
        )  # fmt: skip

    def create(self, path: Path | str, data: bytes) -> None:
        """Makes a file with this content; the directories above it too."""
        key = str(path)
        self._close(key)
        try:
            handle = os.open(key, _CREATE, 0o644)
        except FileNotFoundError:  # its directory, which is looked for only then
            _make_directories(os.path.dirname(key))
            handle = os.open(key, _CREATE, 0o644)
        self._keep(key, handle)
        self.write(path, 0, data)

    def write(self, path: Path | str, position: int, data: bytes | bytearray | memoryview) -> None:
        """Writes all of the data at a position.

        Raises:
            OSError: the disk is full or failed; the file may hold a part of the data.
        """
        handle = self._handle(path)
        done = os.pwrite(handle, data, position)
        while done < len(data):
            done += os.pwrite(handle, memoryview(data)[done:], position + done)

    def write_parts(
        self, path: Path | str, position: int, parts: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        """Writes parts one behind the other at a position, without joining them before.

        Raises:
            OSError: as `write`.
        """
        handle = self._handle(path)
        for first in range(0, len(parts), PARTS_MAX):
            some = parts[first : first + PARTS_MAX]
            size = sum(map(len, some))
            done = os.pwritev(handle, some, position)
            if done < size:
                self.write(path, position + done, memoryview(b"".join(some))[done:])
            position += size

    def read(self, path: Path | str, position: int, size: int) -> bytes:
        """Reads up to `size` bytes of a file from a position on; fewer at the end of the file."""
        return os.pread(self._handle(path), size, position)

    def size(self, path: Path | str) -> int:
        """The file's size in bytes."""
        return os.fstat(self._handle(path)).st_size

    def truncate(self, path: Path | str, size: int) -> None:
        """Cuts the file to a size."""
        os.ftruncate(self._handle(path), size)

    def sync(self, path: Path) -> None:
        """Returns when the file's content is on the disk. May be called from any thread."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _sync_data(handle)
        finally:
            os.close(handle)

    def sync_directory(self, path: Path) -> None:
        """Returns when the directory's entries are on the disk. May be called from any thread."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def delete(self, path: Path) -> None:
        """Removes a file if it is there; its space is free a little later."""
        handle = self._handles.pop(str(path), None)
        if handle is None:
            with contextlib.suppress(OSError):  # then its space is freed at once, or it is missing
                handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            path.unlink(missing_ok=True)
        finally:
            if handle is not None:
                self.freeing.take(handle)

    def delete_unopened(self, path: Path) -> None:
        """Removes a file that has no handle here, and frees its space. From any thread."""
        remove_file(path)

    def delete_directory(self, path: Path) -> None:
        """Removes a directory of files, if it is there."""
        if path.is_dir():
            for entry in path.iterdir():
                self.delete(entry)
            self.remove_directory(path)

    def remove_directory(self, path: Path) -> None:
        """Removes an empty directory. May be called from any thread."""
        path.rmdir()

    def set_aside(self, path: Path) -> Path:
        """Gives a file a name under which the store does not look at it; returns that name."""
        self._close(str(path))
        return path.rename(path.with_name(f"{path.name}.cut"))

    def replace(self, source: Path, target: Path) -> None:
        """Gives a file the name of another one, which is gone then."""
        self._close(str(source))
        self._close(str(target))
        source.replace(target)

    def move_directory(self, source: Path, target: Path) -> None:
        """Renames a directory, and closes the files in it."""
        inside = f"{source}/"
        for key in [key for key in self._handles if key.startswith(inside)]:
            self._close(key)
        source.rename(target)

    def exists(self, path: Path | str) -> bool:
        """Whether there is such a file."""
        return str(path) in self._handles or os.path.exists(path)

    def close(self) -> None:
        """Closes every handle, and returns when the space of deleted files is free."""
        while self._handles:
            os.close(self._handles.popitem()[1])
        self.freeing.close()

    def _handle(self, path: Path | str) -> int:
        key = str(path)
        handle = self._handles.get(key)
        if handle is None:
            handle = os.open(path, self._mode | os.O_CLOEXEC)
            self._keep(key, handle)
        else:
            self._handles.move_to_end(key)
        return handle

    def _keep(self, key: str, handle: int) -> None:
        self._handles[key] = handle
        if len(self._handles) > self._open_files_max:
            os.close(self._handles.popitem(last=False)[1])

    def _close(self, key: str) -> None:
        handle = self._handles.pop(key, None)
        if handle is not None:
            os.close(handle)


def _make_directories(path: str) -> None:
    """Makes a directory and those above it, without a look at each: mostly but one is missing."""
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_directories(os.path.dirname(path))
        _make_directories(path)
