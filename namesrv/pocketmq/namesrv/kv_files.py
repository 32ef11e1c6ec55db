"""The files of a KV configuration: RocketMQ's own, and a log of the changes since it was written.

The file has the form of RocketMQ's (`namesrv/kvconfig/KVConfigSerializeWrapper`), so that either
can take over the other's after a stop. The log has one change a line, a JSON list of namespace,
key and value; a value of null removes the key.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from pocketmq.protocol.errors import OperatingError

LOG_SIZE_MAX = 1024 * 1024
"""Bytes of changes beyond which they go into the file, unless that is larger."""

INDENTED_SIZE_MAX = 1024 * 1024
"""Bytes up to which the file is written for readers, in lines."""

Table = dict[str, dict[str, str]]
Change = tuple[str, str, str | None]
"""Namespace, key, and value; None removes the key."""

log = logging.getLogger("pocketmq.namesrv")


class KVConfigError(OperatingError):
    """The KV configuration cannot be read, written, or grow any further.

    Attributes:
        path: its file, if it has one.
        reason: what is wrong, and what to do.
    """

    def __init__(self, path: Path | None, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return f"the KV configuration{where}: {self.reason}"


class _File(msgspec.Struct, rename="camel"):
    config_table: Table


class KVFiles:
    """Reads and writes the files; one call at a time, in any thread.

    Args:
        path: of the file; its log lies beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._log_path = path, path.with_name(path.name + ".log")
        self._fd: int | None = None
        self._end = 0

    @property
    def log_size(self) -> int:
        """Bytes of the log."""
        return self._end

    def load(self) -> Table:
        """Reads the file and the changes since; takes missing ones for empty ones.

        Raises:
            KVConfigError: one of them is damaged or cannot be read.
        """
        table: Table = {}
        if data := self._read(self.path):
            try:
                table = msgspec.json.decode(data, type=_File).config_table
            except (msgspec.DecodeError, UnicodeDecodeError) as e:
                raise _damaged(self.path, e) from e
        elif data is not None:
            raise _damaged(self.path, "it is empty")
        lines = (self._read(self._log_path) or b"").splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            try:
                change = msgspec.json.decode(line, type=Change)
            except (msgspec.DecodeError, UnicodeDecodeError) as e:
                if number < len(lines):
                    raise _damaged(self._log_path, f"line {number}: {e}") from e
                change = None
            if change is None or not line.endswith(b"\n"):
                # It was being written when the machine stopped, and nobody was told of it.
                log.warning("%s: its last line is incomplete, and left out", self._log_path)
                break
            apply(table, change)
            self._end += len(line)
        return table

    def _read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as e:
            raise KVConfigError(path, f"it cannot be read: {e.strerror or e}") from e

    def append(self, change: Change) -> None:
        """Writes a change to the log; it is on the disk on return.

        Raises:
            OSError: it is not.
        """
        line = memoryview(msgspec.json.encode(change) + b"\n")
        if self._fd is None:
            self._fd = self._opened()
        try:
            end = self._end
            while line:
                written = os.pwrite(self._fd, line, end)
                line, end = line[written:], end + written
            os.fdatasync(self._fd)
        except OSError:
            self.close()  # what is behind the end is cut off when it is opened again
            raise
        self._end = end

    def _opened(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._log_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(fd, self._end)
            _sync_directory(self.path.parent)
        except OSError:
            os.close(fd)
            raise
        return fd

    def fold(self, table: Table) -> None:
        """Writes the whole table into the file, and removes the log.

        Raises:
            OSError: the files are as they were.
        """
        data = msgspec.json.encode(_File(table))
        if len(data) <= INDENTED_SIZE_MAX:
            data = msgspec.json.format(data, indent=2)
        _write_atomically(self.path, data + b"\n")
        self.close()
        self._log_path.unlink(missing_ok=True)
        self._end = 0

    def close(self) -> None:
        """Closes the log; the next change opens it again."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def apply(table: Table, change: Change) -> None:
    """Makes a change in a table."""
    namespace, key, value = change
    keys = table.setdefault(namespace, {})
    if value is None:
        keys.pop(key, None)
    else:
        keys[key] = value


def _damaged(path: Path, reason: object) -> KVConfigError:
    return KVConfigError(
        path, f"the file is damaged ({reason}): restore it, or move it away to start with none"
    )


def _write_atomically(path: Path, data: bytes) -> None:
    """Replaces a file so that a crash at any moment leaves the old or the new content, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
