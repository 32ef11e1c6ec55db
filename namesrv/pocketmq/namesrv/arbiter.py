"""The arbiter of broker sets in a single name server: values by key, in a SQLite file.

It decides nothing: members of a set change their state by compare-and-set, and a change is on the
disk before it is answered. For more than one name server there is etcd: SQLite is one machine's.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from pocketmq.protocol.errors import ConfigError, OperatingError

KEYS_MAX = 10_000
"""Values that are kept, one for each broker set."""

VALUE_SIZE_MAX = 64 * 1024
"""Bytes of one value."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL
) WITHOUT ROWID;
"""


class ArbiterFileError(OperatingError):
    """The arbiter's file cannot be read or written."""


class ArbiterEntry(NamedTuple):
    """A value and its version; version 0 says that there is none."""

    value: bytes
    version: int


class ArbiterFile:
    """Keeps values by key, durably.

    Args:
        path: of the SQLite file; made if it is missing.

    Raises:
        ConfigError: it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=2.0)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")  # one name server, not two
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as e:
            raise ConfigError(
                f"arbiterPath: {path} cannot be used ({e}): it must be a file of this name server "
                f"alone, on a disk that it may write to"
            ) from e

    def read(self, key: str) -> ArbiterEntry:
        """Returns the value of a key.

        Raises:
            ArbiterFileError: the file cannot be read.
        """
        try:
            rows = self._db.execute("SELECT value, version FROM entries WHERE key = ?", (key,))
            row = rows.fetchone()
        except sqlite3.Error as e:
            raise ArbiterFileError(f"{self._path}: {e}") from e
        return ArbiterEntry(b"", 0) if row is None else ArbiterEntry(bytes(row[0]), row[1])

    def entries(self) -> list[tuple[str, ArbiterEntry]]:
        """Returns all values with their keys, in order.

        Raises:
            ArbiterFileError: the file cannot be read.
        """
        try:
            rows = self._db.execute("SELECT key, value, version FROM entries ORDER BY key")
            return [(key, ArbiterEntry(bytes(value), version)) for key, value, version in rows]
        except sqlite3.Error as e:
            raise ArbiterFileError(f"{self._path}: {e}") from e

    def write(self, key: str, value: bytes, version: int) -> tuple[int, bool]:
        """Replaces the value of a key if it still has a version.

        Returns:
            the version that it has now, and whether it was replaced.

        Raises:
            ArbiterFileError: nothing was changed: the file cannot be written, or is full.
        """
        try:
            now = self.read(key).version
            if now != version:
                return now, False
            if not now and self._count() >= KEYS_MAX:
                raise ArbiterFileError(f"{KEYS_MAX} broker sets are known here, the limit")
            self._db.execute(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (key, value, version + 1)
            )
        except sqlite3.Error as e:
            raise ArbiterFileError(f"{self._path}: {e}") from e
        return version + 1, True

    def _count(self) -> int:
        (count,) = self._db.execute("SELECT count(*) FROM entries").fetchone()
        return int(count)

    def clear(self) -> None:
        """Forgets all sets: their members' data was removed.

        Raises:
            ArbiterFileError: the file cannot be written.
        """
        try:
            self._db.execute("DELETE FROM entries")
        except sqlite3.Error as e:
            raise ArbiterFileError(f"{self._path}: {e}") from e

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
