"""The data directory of one broker: locked, with its metadata open."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec

from pocketmq.broker.store.disk.disk import DiskGuard
from pocketmq.broker.store.disk.errors import DirectoryError, FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.disk.lock import DirectoryLock
from pocketmq.broker.store.metadata.metadata import BOOT_STATE, CLEAN_STATE, Metadata
from pocketmq.broker.store.metadata.schema import RELEASE_STATE
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.runtime import VERSION


class DataDirectory:
    """Locks a data directory and opens its metadata.

    Args:
        path: of the directory, which is made if it is missing.
        settings: the limits of the disk and of open files.
        files: the disk; tests give one that fails.

    Attributes:
        queues: the directory of the logs: `<topic>/<queue id>/` below it.
        lock: keeps other processes out.
        disk: how full the disk is.
        metadata: what is kept beside the logs.
        lost_metadata: whether there are logs, but no metadata that knows of them.
        was_clean: whether the last run ended with `mark_clean`.
        lost_power: whether the system has stopped since the last run, which did not end cleanly:
            what the run had not synced may be gone.

    Raises:
        DirectoryInUseError, DirectoryError, FormatError: see `disk.errors`.
    """

    def __init__(self, path: Path, settings: StoreSettings, files: Files | None = None) -> None:
        self.path, self.queues = path, path / "queues"
        self.files = files or Files(settings.open_files_max)
        try:
            self.files.make_directory(path)
        except OSError as e:
            raise DirectoryError(path, e.strerror or str(e)) from e
        with ExitStack() as opened:
            self.lock = DirectoryLock(path)
            opened.callback(self.lock.release)
            self.disk = DiskGuard(
                path,
                settings.disk_warning_percent,
                settings.disk_clean_percent,
                settings.disk_free_min,
            )
            self._check_metadata_is_there()
            self.metadata = Metadata(path / "meta.db", self.files)
            opened.callback(self.files.close)
            opened.callback(self.metadata.close)
            # Without a mark the metadata is new: then there must be no logs yet, or it was lost.
            mark = self.metadata.state(CLEAN_STATE)
            self.lost_metadata = mark is None and self.queues.exists()
            self.was_clean = mark == "yes" or (mark is None and not self.lost_metadata)
            boot_id = self.files.boot_id
            self.lost_power = not self.was_clean and (
                not boot_id or self.metadata.state(BOOT_STATE) != _json(boot_id)
            )
            self._opened = opened.pop_all()

    def _check_metadata_is_there(self) -> None:
        """Refuses an empty meta.db beside messages: what it knew would be gone in silence."""
        path = self.path / "meta.db"
        if self.queues.exists() and path.exists() and not path.stat().st_size:
            raise FormatError(
                path,
                f"it is empty, though there are messages: restore it from a copy, or have it made "
                f"again from the logs with `pocketmq store repair {self.path}`",
            )

    def mark_clean(self, *, is_clean: bool) -> None:
        """Writes durably whether the next start may go by the checkpoints alone.

        Raises:
            WriteFailedError: the disk may not have the mark.
        """
        self.metadata.set_state(RELEASE_STATE, _json(VERSION))
        self.metadata.set_state(BOOT_STATE, _json(self.files.boot_id))
        self.metadata.set_state(CLEAN_STATE, "yes" if is_clean else "no")
        self.metadata.sync()

    def close(self) -> None:
        """Closes the metadata and all files, and releases the lock."""
        self._opened.close()


def _json(text: str) -> str:
    """A state's value as every release reads it: checks of 0.1.0 take all but one for JSON."""
    return msgspec.json.encode(text).decode()
