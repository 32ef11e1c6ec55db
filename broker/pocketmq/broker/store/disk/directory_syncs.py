"""Shares the syncs of a directory among all threads that want one at the same time.

The directories above new logs are the same for many of them. One sync serves everybody who asked
before it began; who asks meanwhile gets the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path


class _Syncs:
    """Counts the syncs of one directory: how many have begun and ended, and whether one is under
    way.
    """

    __slots__ = ("begun", "ended", "is_running", "users")

    def __init__(self) -> None:
        self.begun = self.ended = self.users = 0
        self.is_running = False


class DirectorySyncs:
    """Shares the syncs of directories.

    Args:
        sync: returns when a directory's entries are on the disk; called in any thread.
    """

    def __init__(self, sync: Callable[[Path], object]) -> None:
        self._sync = sync
        self._changed = threading.Condition()
        self._of: dict[Path, _Syncs] = {}
        self._error: OSError | None = None

    def sync(self, path: Path) -> None:
        """Returns when all entries that a directory has now are on the disk.

        Raises:
            OSError: this sync failed, or an earlier one of whatever directory did, after which a
                success would mean nothing.
        """
        with self._changed:
            syncs = self._of.setdefault(path, _Syncs())
            syncs.users += 1
            wanted = syncs.begun + 1
            try:
                while syncs.ended < wanted:
                    if self._error is not None:
                        raise self._error
                    if syncs.is_running:
                        self._changed.wait()
                    else:
                        self._run(path, syncs)
            finally:
                syncs.users -= 1
                if not syncs.users:
                    del self._of[path]

    def _run(self, path: Path, syncs: _Syncs) -> None:
        syncs.is_running = True
        syncs.begun = number = syncs.begun + 1
        self._changed.release()
        error: OSError | None = None
        try:
            self._sync(path)
        except OSError as e:
            error = e
        finally:
            self._changed.acquire()
            syncs.is_running = False
            self._changed.notify_all()
        if error is None:
            syncs.ended = number
            return
        if not isinstance(error, FileNotFoundError):  # it was deleted: others may be well
            self._error = error
        raise error
