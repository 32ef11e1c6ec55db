"""Deletes logs: first the metadata forgets them, durably, then their files are removed.

A thread brings the former to the disk. To remove the files of thousands of queues takes seconds, so
a topic's directory is moved away by one rename, and a thread removes what is in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Awaitable, Iterable
from itertools import islice
from pathlib import Path

from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.segment import HEADER_SIZE, is_unfinished, read_segment
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.writing.flusher import Flusher

log = logging.getLogger("pocketmq.store")

REMOVED_AT_ONCE = 32
"""Files and directories that the thread removes before others have their turn in it."""


class _Noted:
    """A deleted topic, the numbers of its logs, and a future for those that wait."""

    __slots__ = ("numbers", "settled", "topic")

    def __init__(self, topic: str, numbers: set[int]) -> None:
        self.topic, self.numbers = topic, numbers
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Deletions:
    """Knows which deleted logs may still have files, and removes these files.

    Args:
        files: the disk.
        flusher: brings to the disk that logs were deleted.
        metadata: where the numbers of such logs are kept.
        root: the directory of all queues.
        away: where the directories of deleted topics are moved to; whatever is there goes.
    """

    def __init__(
        self, files: Files, flusher: Flusher, metadata: Metadata, root: Path, away: Path
    ) -> None:
        self._files, self._flusher, self._metadata = files, flusher, metadata
        self._root, self._away = root, away
        self._numbers = metadata.deleted_logs()
        left = sorted(away.iterdir()) if away.is_dir() else []
        self._moved: deque[tuple[Path, set[int]]] = deque((path, set()) for path in left)
        self._noted: dict[_Noted, None] = {}
        self._settling: asyncio.Task[None] | None = None
        self._removal: asyncio.Task[None] | None = None

    def note(self, topic: str, numbers: Iterable[int]) -> Awaitable[None]:
        """Deletes a topic and its logs from the metadata.

        Returns:
            what to wait for until that is on the disk and the files are moved away.

        Raises:
            WriteFailedError: nothing was changed; when it is awaited: nobody knows what the disk
                holds.
        """
        numbers = set(numbers)
        self._metadata.delete_topic(topic, numbers)
        self._numbers |= numbers
        noted = _Noted(topic, numbers)
        self._noted[noted] = None
        if self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(
                self._settle(), name="settle deletions"
            )
        return noted.settled

    async def _settle(self) -> None:
        try:
            while self._noted:
                some = list(self._noted)
                try:
                    await self._flusher.sync_file(self._metadata.log_path)
                except WriteFailedError as e:
                    self._give_up(some, e)
                else:
                    self._move_away(some)
        finally:
            self._settling = None

    def _give_up(self, some: Iterable[_Noted], error: WriteFailedError) -> None:
        """Fails the deletion of topics; the next start finds out what became of them."""
        for noted in some:
            self._noted.pop(noted, None)
            if not noted.settled.done():
                noted.settled.set_exception(error)

    def _move_away(self, some: Iterable[_Noted]) -> None:
        for noted in some:
            if noted not in self._noted:
                continue  # see `make_room`
            del self._noted[noted]
            try:
                # Also what is damaged, or was set aside: all that the topic holds.
                self._move_directory(noted.topic, noted.numbers)
            except OSError as e:
                log.error("the next start removes the files of %s, which is deleted: %s",
                          noted.topic, e)  # fmt: skip
            if not noted.settled.done():
                noted.settled.set_result(None)
        self.remove_moved()

    def finish(self) -> None:
        """Removes, at the start, the files of deleted logs that the last run did not come to.

        Raises:
            FormatError, OSError, WriteFailedError: it cannot.
        """
        if self._numbers:
            for directory in self._root.glob("*/*"):
                self.make_room(directory)
            for directory in self._root.glob("*"):
                if directory.is_dir() and not any(directory.iterdir()):
                    self._files.remove_directory(directory)
            self.done(self._numbers)

    @property
    def are_pending(self) -> bool:
        """Whether files of deleted logs may be in the way of new ones."""
        return bool(self._noted or self._numbers)

    def make_room(self, directory: Path) -> None:
        """Removes the directory of a queue if it holds a deleted log, or nothing.

        It is about to be used again.

        Raises:
            FormatError, OSError, WriteFailedError: it cannot.
        """
        of_topic = [noted for noted in self._noted if noted.topic == directory.parent.name]
        if of_topic:
            self._flusher.sync_file_at_once(self._metadata.log_path)
            self._move_away(of_topic)
        if self._numbers and directory.is_dir():
            number = number_in(self._files, directory)
            if number is None or number in self._numbers:
                self._files.delete_directory(directory)

    def _move_directory(self, topic: str, numbers: set[int]) -> None:
        """Moves the directory of a topic that was noted to where `remove_moved` finds it.

        Raises:
            OSError: the next start removes its files.
        """
        directory = self._root / topic
        if not numbers:
            return
        target = self._away / str(min(numbers))
        if directory.is_dir():
            self._files.make_directory(self._away)
            while target.exists():
                target = target.with_name(f"{target.name}.more")
            self._files.move_directory(directory, target)
        self._moved.append((target, numbers))

    def remove_moved(self) -> None:
        """Starts to remove the files that were moved away, unless that is under way."""
        if self._moved and self._removal is None:
            self._removal = asyncio.get_running_loop().create_task(
                self._remove_moved(), name="remove deleted topics"
            )

    async def _remove_moved(self) -> None:
        run = self._files.freeing.run
        try:
            while self._moved:
                path, numbers = self._moved.popleft()
                try:
                    if numbers:
                        await run(self._sync_root)  # from now on the start looks into `away` only
                        self._forget(numbers)
                    while path.is_dir():
                        await run(remove_some, self._files, path, REMOVED_AT_ONCE)
                except (OSError, StoreError) as e:
                    log.error("the next start removes %s, which was deleted: %s", path, e)
        finally:
            self._removal = None

    async def wait(self) -> None:
        """Returns when all files of deleted logs are removed."""
        while (task := self._settling or self._removal) is not None:
            await task

    async def stop(self) -> None:
        """Stops removing files; the next start removes the rest."""
        if self._settling is not None:
            await self._settling
        if self._removal is not None:
            self._removal.cancel()
            await asyncio.wait((self._removal,))

    def done(self, numbers: Iterable[int]) -> None:
        """Makes the removal of logs' files durable, then forgets their numbers.

        Raises:
            OSError, WriteFailedError: the next start looks for them again.
        """
        numbers = set(numbers)
        if not numbers:
            return
        self._sync_root()
        self._forget(numbers)

    def _sync_root(self) -> None:
        if self._root.is_dir():
            self._files.sync_directory(self._root)

    def _forget(self, numbers: set[int]) -> None:
        self._metadata.forget_deleted_logs(numbers)
        self._numbers -= numbers


def remove_some(files: Files, directory: Path, count: int) -> int:
    """Removes up to `count` files and directories of a directory, in the end the directory itself.

    Returns:
        how many more may be removed.
    """
    with os.scandir(directory) as entries:
        some = list(islice(entries, count))
    for entry in some:
        if not count:
            return 0
        if entry.is_dir(follow_symlinks=False):
            count = remove_some(files, Path(entry.path), count)
        else:
            files.delete_unopened(Path(entry.path))
            count -= 1
    if not count:
        return 0
    files.remove_directory(directory)
    return count - 1


def number_in(files: Files, directory: Path) -> int | None:
    """Reads the number that the files of a log carry; None if a crash left nothing in them.

    Raises:
        FormatError: they are not of this store, or damaged.
    """
    for path in sorted(directory.glob("*.log")):
        header = files.read(path, 0, HEADER_SIZE)
        if not is_unfinished(header):
            return read_segment(path, header).log_number
    return None
