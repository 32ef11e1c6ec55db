"""Disks that fail, wait, or lose power on order, at the store's seam to the files."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.metadata.metadata import Metadata


def refuse_changes(metadata: Metadata, table: str) -> None:
    """Lets every later row for a table of the metadata fail, as on a full disk."""
    metadata._db.execute(
        f"CREATE TEMP TRIGGER refuse_{table} BEFORE INSERT ON main.{table} "
        f"BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )


class FailingFiles(Files):
    """Fails the writes that are asked for, after a part of the data.

    Attributes:
        countdown: changes of files that still succeed; None for all.
        error: errno of the failure.
        part: share of the data that a failing write leaves in the file.
        failures: how many fail from then on; None for all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.countdown: int | None = None
        self.error = errno.ENOSPC
        self.part = 0.5
        self.failures: int | None = 1
        self.failed = 0

    def fail_after(
        self,
        writes: int,
        error: int = errno.ENOSPC,
        part: float = 0.5,
        failures: int | None = 1,
    ) -> None:
        self.countdown, self.error, self.part = writes, error, part
        self.failures, self.failed = failures, 0

    def heal(self) -> None:
        self.countdown = None

    def _is_due(self) -> bool:
        if self.countdown is None:
            return False
        if self.countdown > 0:
            self.countdown -= 1
            return False
        self.failed += 1
        if self.failures is not None and self.failed >= self.failures:
            self.countdown = None
        return True

    def write(self, path: Path | str, position: int, data: bytes | bytearray | memoryview) -> None:
        if self._is_due():
            super().write(path, position, data[: int(len(data) * self.part)])
            raise OSError(self.error, os.strerror(self.error), str(path))
        super().write(path, position, data)

    def write_parts(
        self, path: Path | str, position: int, parts: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        self.write(path, position, b"".join(parts))

    def truncate(self, path: Path | str, size: int) -> None:
        if self._is_due():
            raise OSError(self.error, os.strerror(self.error), str(path))
        super().truncate(path, size)


class SlowFiles(Files):
    """Counts syncs, and lets them wait or fail on order.

    A sync waits in its thread while the gate is closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.synced: Counter[str] = Counter()
        self.error: int | None = None
        self.on_sync: Callable[[Path], object] = lambda _: None

    def sync(self, path: Path) -> None:
        self.on_sync(path)
        assert self.gate.wait(60), "nobody opened the gate"
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error), str(path))
        super().sync(path)
        self.synced[path.suffix] += 1


class PowerCutFiles(Files):
    """Knows what would be left if the power went: synced content in synced directories."""

    def __init__(self) -> None:
        super().__init__()
        self._content: dict[Path, bytes] = {}
        self._entries: dict[Path, set[str]] = {}

    def sync(self, path: Path) -> None:
        super().sync(path)
        self._content[path] = path.read_bytes()

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self._entries[path] = set(os.listdir(path))

    def delete(self, path: Path) -> None:
        super().delete(path)
        self._content.pop(path, None)  # that deletions come through at once is the worse case

    def left_after_power_cut(self, directory: Path, target: Path) -> None:
        """Makes a data directory of what is surely left of another one."""
        target.mkdir()
        # SQLite's own promise is taken as kept: what was moved out of its log file is there.
        shutil.copy(directory / "meta.db", target / "meta.db")
        self._copy(directory, target)

    def _copy(self, source: Path, target: Path) -> None:
        for name in self._entries.get(source, set()):
            path = source / name
            if path.is_dir():
                (target / name).mkdir()
                self._copy(path, target / name)
            elif path.suffix in (".log", ".idx") and path.exists():
                (target / name).write_bytes(self._content.get(path, b""))
