"""One process per data directory: a lock that the system lets go when the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from pocketmq.broker.store.disk.errors import DirectoryError, DirectoryInUseError


class DirectoryLock:
    """Holds a data directory for this process.

    Args:
        directory: it is made if it is missing.
        read_only: nothing is made or written; only a broker that has it open is in the way.

    Raises:
        DirectoryInUseError: another process holds it; the error names the process.
        DirectoryError: it cannot be made or written.
    """

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        mode = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        self._handle = -1
        try:
            if not read_only:
                directory.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(directory / "lock", mode | os.O_CLOEXEC, 0o644)
        except OSError as e:
            if read_only and isinstance(e, FileNotFoundError):
                return  # no broker ever had it
            raise DirectoryError(directory, e.strerror or str(e)) from e
        try:
            fcntl.flock(
                self._handle, (fcntl.LOCK_SH if read_only else fcntl.LOCK_EX) | fcntl.LOCK_NB
            )
        except BlockingIOError:
            pid = os.pread(self._handle, 32, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise DirectoryInUseError(directory, pid) from None
        except OSError as e:
            os.close(self._handle)
            raise DirectoryError(directory, f"it cannot be locked: {e.strerror}") from e
        if read_only:
            return
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Lets the directory go. May be called again."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)
