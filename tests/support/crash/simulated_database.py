"""SQLite on a simulated disk: its transactions are changes of that disk, and fail as those do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Protocol


class DatabaseDisk(Protocol):
    """The disk that a database is on, as the database sees it.

    Attributes:
        is_off: whether the power is.
    """

    is_off: bool

    def check_transaction(self, path: Path) -> None:
        """A transaction is about to be made.

        Raises:
            sqlite3.OperationalError: it cannot be.
        """

    def note_transaction(self, path: Path, *, is_synced: bool) -> None:
        """A transaction is in SQLite's log file, or in the database itself."""

    def keep_log(self, path: Path) -> None:
        """SQLite's log file is about to be emptied."""


class SimulatedDatabase(sqlite3.Connection):
    """Tells the disk of each transaction; fails on its order, before anything is changed."""

    _disk: DatabaseDisk
    _path: Path
    _is_full = False

    def attach(self, disk: DatabaseDisk, path: Path) -> None:
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
        self._disk.check_transaction(self._path)
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
        self._disk.check_transaction(self._path)
        cursor = super().executescript(sql)
        self._disk.note_transaction(self._path, is_synced=False)
        return cursor
