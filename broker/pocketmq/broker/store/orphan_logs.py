"""Finds logs again that the metadata lost in a power cut, by their own headers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pocketmq.broker.store.deletions import number_in
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.leftovers import remove_unfinished
from pocketmq.broker.store.metadata.log_table import LogTable
from pocketmq.broker.store.metadata.metadata import Metadata

log = logging.getLogger("pocketmq.store")

_TOPICS = "adopted_topics"


class OrphanLogs:
    """Adopts the logs whose directories are there and which the metadata does not know.

    Args:
        files: the disk.
        metadata: the metadata that the logs are entered in.
        root: the directory of all queues.

    Attributes:
        topics: those of which the metadata had lost at least a queue, and so perhaps the settings
            too; until `forget`.
    """

    def __init__(self, files: Files, metadata: Metadata, root: Path) -> None:
        self._files, self._metadata, self._root = files, metadata, root
        self.topics: set[str] = set(msgspec.json.decode(metadata.state(_TOPICS) or "[]"))

    def adopt(self, known: LogTable, *, is_lost: bool) -> None:
        """Enters the unknown logs in the metadata and in the table of logs.

        Args:
            known: all logs that the metadata knows.
            is_lost: whether the metadata was lost with everything else, so that nobody knows how
                much of a log was on the disk. One that alone is unknown is new, and a crash may
                have taken any of it that was not flushed.
        """
        checkpoint = None if is_lost else Checkpoint()
        found: list[tuple[str, int, int]] = []
        for topic, queue_id in self._directories():
            if not queue_id.isdecimal() or known.get(topic, int(queue_id)):
                continue
            directory = self._root / topic / queue_id
            number = number_in(self._files, directory)
            if number is None:
                remove_unfinished(self._files, directory)
            else:
                found.append((topic, int(queue_id), number))
                self.topics.add(topic)
        if found:
            self._save()  # first: a crash must not leave the logs known and this not
        for topic, found_id, number in found:
            self._metadata.adopt_queue_log(number, topic, found_id)
            known.enter(topic, found_id, number, checkpoint)
            log.warning("found the messages of %s queue %d again", topic, found_id)

    def forget(self) -> None:
        """Forgets the topics, whose settings were mended."""
        if self.topics:
            self.topics.clear()
            self._save()

    def _save(self) -> None:
        self._metadata.set_state(_TOPICS, msgspec.json.encode(sorted(self.topics)).decode())

    def _directories(self) -> Iterator[tuple[str, str]]:
        """Yields (topic, name) of each directory of a queue."""
        if self._root.is_dir():
            with os.scandir(self._root) as topics:
                for topic in topics:
                    if topic.is_dir():
                        yield from ((topic.name, name) for name in os.listdir(topic.path))
