"""The offsets of a broadcasting member, in a file of its own, since no broker keeps them."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pocketmq.client.errors import OffsetFileError
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.log_fields import log_fields
from pocketmq.client.offsets.offset_store import ConsumeFromWhere
from pocketmq.protocol.messages.message import MessageQueue

log = logging.getLogger("pocketmq.client")

FOLDER = "~/.pocketmq/offsets"
"""The folder of the files by default."""

FILE_SIZE_MAX = 64 * 1024 * 1024
"""A larger file cannot be one of these: a million queues take about half of it."""


def default_path(member: str, group: str) -> Path:
    """Returns the path of one member's file.

    Args:
        member: names the member, the same after each start.
        group: the consumer group.
    """
    return Path(FOLDER).expanduser() / member / f"{group}.json"


class OffsetFile(msgspec.Struct, frozen=True):
    """The file's content: by topic, broker and queue number the next offset to handle."""

    group: str
    offsets: dict[str, dict[str, dict[int, int]]]


class LocalFileOffsetStore:
    """Keeps a member's offsets in a JSON file (`client/consumer/store/LocalFileOffsetStore`).

    The file is replaced as a whole: whoever reads it, after a crash too, finds the old content or
    the new one.

    Args:
        group: the consumer group.
        path: the file; its folders are made when it is first written.
        offsets: asks brokers for the ends of queues.
        from_where: where to begin without a stored offset.
    """

    def __init__(
        self, group: str, path: Path, offsets: QueueOffsets, from_where: ConsumeFromWhere
    ) -> None:
        self._group, self._path = group, path
        self._offsets, self._from_where = offsets, from_where
        self._stored: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Reads the file; there need not be one yet.

        Raises:
            OffsetFileError: there is one, and it cannot be read.
        """
        self._stored = await asyncio.to_thread(self._read)

    def _read(self) -> dict[MessageQueue, int]:
        try:
            with self._path.open("rb") as file:
                content = msgspec.json.decode(file.read(FILE_SIZE_MAX), type=OffsetFile)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as e:
            raise OffsetFileError(str(self._path), str(e)) from e
        if content.group != self._group:
            raise OffsetFileError(str(self._path), f"it is of group {content.group}")
        return {
            MessageQueue(topic, broker_name, queue_id): offset
            for topic, brokers in content.offsets.items()
            for broker_name, queues in brokers.items()
            for queue_id, offset in queues.items()
        }

    async def load(self, queue: MessageQueue) -> int:
        """Returns the offset at which to continue in a queue.

        Raises:
            What `QueueOffsets` raises.
        """
        stored = self._stored.get(queue)
        return await self._from_where.find(self._offsets, queue) if stored is None else stored

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the stored offset of a queue; None if there is none."""
        return self._stored.get(queue)

    async def store(self, current: Iterable[tuple[MessageQueue, int]]) -> None:
        """Stores the changed offsets; those that cannot be stored are stored the next time."""
        async with self._writing:
            changed = {q: offset for q, offset in current if self._stored.get(q) != offset}
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

    def _write(self, stored: dict[MessageQueue, int]) -> None:
        table: dict[str, dict[str, dict[int, int]]] = {}
        for queue, offset in sorted(stored.items()):
            brokers = table.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker_name, {})[queue.queue_id] = offset
        folder = self._path.parent
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(".tmp", f"{self._path.name}.", folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(OffsetFile(self._group, table))))
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
