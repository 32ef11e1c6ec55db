"""The offsets of a broadcasting member, in a file of its own, since no broker keeps them."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from pocketmq.client.errors import OffsetFileError
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.log_fields import log_fields
from pocketmq.client.offsets.offset_store import ConsumeFromWhere
from pocketmq.protocol.messages.message import MessageQueue

log = logging.getLogger("pocketmq.client")

FOLDER = "~/.pocketmq/offsets"
"""The folder of the files by default."""

ClusterOf = Callable[[str], str | None]
"""Returns the cluster of a broker by the broker's name, if it is known."""

FILE_SIZE_MAX = 64 * 1024 * 1024
"""A larger file cannot be one of these: a million queues take about half of it."""


def default_path(folder: str | None, namespace: str, member: str, group: str) -> Path:
    """Returns the path of one member's file.

    Args:
        folder: of all these files; by default `FOLDER`.
        namespace: of the group; empty for none.
        member: names the member, the same after each start.
        group: the consumer group.
    """
    return Path(folder or FOLDER).expanduser() / namespace / member / f"{group}.json"


Offsets = dict[str, dict[str, dict[int, int]]]
"""By topic, broker and queue number the next offset to handle."""


class OffsetFile(msgspec.Struct, frozen=True):
    """The file's content.

    Attributes:
        group: the consumer group.
        offsets: those of files that did not tell clusters apart: of the first that has the queue.
        clusters: the offsets by cluster.
    """

    group: str
    offsets: Offsets
    clusters: dict[str, Offsets] = msgspec.field(default_factory=dict)


class _Entry(NamedTuple):
    """A queue of one cluster; None where the file did not say of which."""

    cluster: str | None
    queue: MessageQueue


class LocalFileOffsetStore:
    """Keeps a member's offsets in a JSON file (`client/consumer/store/LocalFileOffsetStore`).

    The file is replaced as a whole: whoever reads it, after a crash too, finds the old content or
    the new one.

    Args:
        group: the consumer group.
        path: the file; its folders are made when it is first written.
        offsets: asks brokers for the ends of queues.
        from_where: where to begin without a stored offset.
        cluster_of: tells whose queues these are: brokers of two clusters may have one name.
        old_path: a file that is read as long as there is none at `path`.
    """

    def __init__(
        self,
        group: str,
        path: Path,
        offsets: QueueOffsets,
        from_where: ConsumeFromWhere,
        cluster_of: ClusterOf,
        old_path: Path | None = None,
    ) -> None:
        self._group, self._path, self._old_path = group, path, old_path
        self._offsets, self._from_where = offsets, from_where
        self._cluster_of, self._clusters = cluster_of, dict[str, str]()
        self._stored: dict[_Entry, int] = {}
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Reads the file; there need not be one yet.

        Raises:
            OffsetFileError: there is one, and it cannot be read.
        """
        self._stored = await asyncio.to_thread(self._read)

    def _read(self) -> dict[_Entry, int]:
        found = self._read_file(self._path)
        if found is None and self._old_path is not None:
            found = self._read_file(self._old_path)
        return found or {}

    def _read_file(self, path: Path) -> dict[_Entry, int] | None:
        try:
            with path.open("rb") as file:
                content = msgspec.json.decode(file.read(FILE_SIZE_MAX), type=OffsetFile)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as e:
            raise OffsetFileError(str(path), str(e)) from e
        if content.group != self._group:
            raise OffsetFileError(str(path), f"it is of group {content.group}")
        return {
            _Entry(cluster, MessageQueue(topic, broker_name, queue_id)): offset
            for cluster, table in [*content.clusters.items(), (None, content.offsets)]
            for topic, brokers in table.items()
            for broker_name, queues in brokers.items()
            for queue_id, offset in queues.items()
        }

    def _entry(self, queue: MessageQueue) -> _Entry:
        """Finds the entry of a queue, whose broker may have left the routes since it was loaded."""
        cluster = self._cluster_of(queue.broker_name)
        if cluster is None:
            cluster = self._clusters.get(queue.broker_name, "")
        self._clusters[queue.broker_name] = cluster
        return _Entry(cluster, queue)

    async def load(self, queue: MessageQueue) -> int:
        """Returns the offset at which to continue in a queue.

        Raises:
            What `QueueOffsets` raises.
        """
        stored = await self.committed(queue)
        return await self._from_where.find(self._offsets, queue) if stored is None else stored

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the stored offset of a queue; None if there is none."""
        entry = self._entry(queue)
        stored = self._stored.get(entry)
        if stored is None:
            stored = self._stored.pop(_Entry(None, queue), None)
            if stored is not None:
                self._stored[entry] = stored
        return stored

    async def store(self, current: Iterable[tuple[MessageQueue, int]]) -> None:
        """Stores the changed offsets; those that cannot be stored are stored the next time."""
        async with self._writing:
            entries = ((self._entry(queue), offset) for queue, offset in current)
            changed = {e: offset for e, offset in entries if self._stored.get(e) != offset}
            if not changed:
                return
            fresh = {**self._stored, **changed}
            try:
                await asyncio.to_thread(self._write, fresh)
            except OSError as e:
                about = log_fields(self._group)
                log.warning("group %s: offsets are not stored: %s", self._group, e, extra=about)
            else:
                self._stored = fresh

    def _write(self, stored: dict[_Entry, int]) -> None:
        content = OffsetFile(self._group, {})
        for (cluster, queue), offset in sorted(stored.items(), key=lambda item: item[0].queue):
            table = content.offsets if cluster is None else content.clusters.setdefault(cluster, {})
            brokers = table.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker_name, {})[queue.queue_id] = offset
        folder = self._path.parent
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(".tmp", f"{self._path.name}.", folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(content)))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise

    def forget(self, queue: MessageQueue) -> None:
        """Does nothing: a queue that comes back is continued."""

    def moved(self, queue: MessageQueue) -> None:
        """Does nothing: no broker has these offsets."""
