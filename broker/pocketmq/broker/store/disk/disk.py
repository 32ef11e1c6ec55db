"""Watches the room on the disk: sends are refused before the disk is really full, reads go on."""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.errors import DiskFullError, StoreError, WriteFailedError

log = logging.getLogger("pocketmq.store")

MIB = 1024 * 1024

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class DiskUse(NamedTuple):
    """Bytes of the file system that holds a directory."""

    total: int
    used: int
    free: int

    @property
    def used_percent(self) -> float:
        """The used share, counted as the system's own tools do."""
        return 100 * self.used / (self.used + self.free) if self.used + self.free else 0.0


def disk_use(path: Path) -> DiskUse:
    """How full the file system of a path is."""
    return DiskUse(*shutil.disk_usage(path))


class DiskGuard:
    """Judges whether the disk of a data directory has room and is sound.

    RocketMQ goes by percentages alone, so that a laptop with 90 % used and a hundred gigabytes
    free refuses sends. Here a percentage only counts when less than `free_min` bytes are left.

    Args:
        path: the data directory.
        warning_percent: used share from which sends are refused (diskSpaceWarningLevelRatio).
        clean_percent: used share from which the oldest data is removed whatever its age
            (diskSpaceCleanForciblyRatio).
        free_min: bytes of free space with which no percentage matters (diskSpaceFreeMin).
        measure: how the disk is asked.

    Attributes:
        use: how full the disk was when it was last asked.
        full_reason: why sends are refused until the disk has room; None if it has.
        failed_reason: why everything is refused until a restart; None while no flush has failed.
    """

    def __init__(
        self,
        path: Path,
        warning_percent: float,
        clean_percent: float,
        free_min: int,
        measure: Callable[[Path], DiskUse] = disk_use,
    ) -> None:
        self._path = path
        self._warning_percent, self._clean_percent = warning_percent, clean_percent
        self._free_min = free_min
        self._measure = measure
        self.use = measure(path)
        self.full_reason: str | None = None
        self.failed_reason: str | None = None
        self.check()

    def set_limits(self, warning_percent: float, clean_percent: float, free_min: int) -> None:
        """Replaces the limits, and checks the disk against them at once."""
        self._warning_percent, self._clean_percent = warning_percent, clean_percent
        self._free_min = free_min
        self.check()

    def look(self) -> DiskUse:
        """Measures the disk again; whether sends are refused is left to the next `check`."""
        self.use = self._measure(self._path)
        return self.use

    def check(self) -> None:
        """Measures the disk again, and refuses or accepts sends by the result."""
        use = self.look()
        if use.used_percent >= self._warning_percent and use.free < self._free_min:
            self.full_reason = (
                f"the disk of {self._path} is {use.used_percent:.1f} % full, the limit is "
                f"diskSpaceWarningLevelRatio={self._warning_percent:g}, with "
                f"{use.free // MIB} MiB free of the diskSpaceFreeMin={self._free_min // MIB} MiB: "
                f"free some space, shorten fileReservedTime, or change these limits"
            )
        else:
            self.full_reason = None

    def refuse(self, reason: str) -> None:
        """Notes that a write found no room; sends are refused until the next check."""
        self.full_reason = f"no room left on the disk of {self._path}: {reason}"

    def learn(self, error: WriteFailedError) -> None:
        """Notes that a write of the metadata failed; sends are refused if it found no room."""
        if isinstance(error, DiskFullError):
            self.refuse(str(error))

    def fail(self, reason: str) -> None:
        """Notes that a flush failed: everything is refused until a restart.

        The kernel may have dropped the pages, so nobody knows what the disk holds.
        """
        self.failed_reason = f"{reason}; the broker must be restarted after the disk is repaired"
        log.critical("%s", self.failed_reason)

    def failed_write(self, directory: Path, error: OSError) -> StoreError:
        """Logs that a write to a directory failed; returns the error for its senders."""
        reason = f"writing to {directory} failed: {error.strerror or error}"
        log.error("%s", reason)
        if error.errno in NO_ROOM:
            self.refuse(error.strerror or str(error))
            return DiskFullError(self.full_reason)
        return WriteFailedError(reason)

    @property
    def refusal(self) -> str | None:
        """The reason why nothing can be written at the moment; None if it can."""
        return self.failed_reason or self.full_reason

    @property
    def room_to_clean(self) -> int:
        """Bytes that may still come before `wants_cleaning`."""
        return self._room_to(self._clean_percent)

    @property
    def room_to_refusal(self) -> int:
        """Bytes that may still come before sends are refused."""
        return self._room_to(self._warning_percent)

    def _room_to(self, percent: float) -> int:
        free_then = (self.use.used + self.use.free) * (100 - percent) / 100
        return max(0, self.use.free - int(min(free_then, self._free_min)))

    @property
    def wants_cleaning(self) -> bool:
        """Whether retention should remove the oldest data, whatever its age."""
        return self.use.used_percent >= self._clean_percent and self.use.free < self._free_min
