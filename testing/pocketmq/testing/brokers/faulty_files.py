"""The files of a broker whose disk can be full on order."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pocketmq.broker.store.disk.files import Files

_READING = ("SELECT", "PRAGMA", "ROLLBACK")
"""How statements begin that need no room."""


class FaultyFiles(Files):
    """A disk that can be full.

    Attributes:
        fillings: the number of faults by which the disk is full at present.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fillings = 0
        files = self

        class Database(sqlite3.Connection):
            """A database on this disk: changes fail while the disk is full."""

            def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
                files.check_room(sql)
                return super().execute(sql, parameters)

            def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
                files.check_room(sql)
                return super().executemany(sql, parameters)

        self._connection_class = Database

    def write(self, path: Path | str, position: int, data: bytes | bytearray | memoryview) -> None:
        """Writes as `Files.write`; fails with ENOSPC while the disk is full."""
        if self.fillings > 0:
            raise OSError(errno.ENOSPC, "No space left on device (a fault was ordered)", str(path))
        super().write(path, position, data)

    def write_parts(
        self, path: Path | str, position: int, parts: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        """Writes as `Files.write_parts`; fails with ENOSPC while the disk is full."""
        self.write(path, position, b"".join(parts))

    def check_room(self, sql: str) -> None:
        """Refuses a statement that needs room while the disk is full.

        Raises:
            sqlite3.OperationalError: there is none.
        """
        if self.fillings > 0 and not sql.startswith(_READING):
            raise sqlite3.OperationalError("database or disk is full (a fault was ordered)")
