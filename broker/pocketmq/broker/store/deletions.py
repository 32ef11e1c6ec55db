"""Deleted logs: first the metadata forgets them, for good, then their files go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pocketmq.broker.store.files import Files
from pocketmq.broker.store.metadata import Metadata
from pocketmq.broker.store.segment import HEADER_SIZE, is_unfinished, read_segment


class Deletions:
    """Which deleted logs may still have files, and the removal of these.

    Args:
        files: the disk.
        metadata: where the numbers of such logs are kept.
        root: the directory of all queues.
    """

    def __init__(self, files: Files, metadata: Metadata, root: Path) -> None:
        self._files, self._metadata, self._root = files, metadata, root
        self._numbers = metadata.deleted_logs()

    def note(self, topic: str, numbers: Iterable[int]) -> None:
        """Has the metadata forget a topic and its logs.

        Raises:
            WriteFailedError: nothing was changed.
        """
        numbers = set(numbers)
        self._metadata.delete_topic(topic, numbers)
        self._numbers |= numbers

    def finish(self) -> None:
        """Removes, at the start, the files that the last run did not come to.

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

    def make_room(self, directory: Path) -> None:
        """Removes the directory of a queue if it holds a deleted log, or nothing."""
        if self._numbers and directory.is_dir():
            number = number_in(self._files, directory)
            if number is None or number in self._numbers:
                self._files.delete_directory(directory)

    def done(self, numbers: Iterable[int]) -> None:
        """The files of these logs were removed: sees to it that they cannot come back.

        Raises:
            OSError, WriteFailedError: the next start looks for them again.
        """
        numbers = set(numbers)
        if not numbers:
            return
        if self._root.is_dir():
            self._files.sync_directory(self._root)
        self._metadata.forget_deleted_logs(numbers)
        self._numbers -= numbers


def number_in(files: Files, directory: Path) -> int | None:
    """The number that the files of a log carry; None if a crash left nothing in them.

    Raises:
        FormatError: they are not of this store, or damaged.
    """
    for path in sorted(directory.glob("*.log")):
        header = files.read(path, 0, HEADER_SIZE)
        if not is_unfinished(header):
            return read_segment(path, header).log_number
    return None
