"""The message store of one broker: all queue logs, committed together once per turn of the loop."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from pocketmq.broker.store.disk import DiskGuard
from pocketmq.broker.store.errors import DiskFullError, StoreError, WriteFailedError
from pocketmq.broker.store.files import Files
from pocketmq.broker.store.flusher import Flusher
from pocketmq.broker.store.lock import DirectoryLock
from pocketmq.broker.store.metadata import Metadata
from pocketmq.broker.store.queue_log import QueueLog, Waiter
from pocketmq.broker.store.recovery import Checkpoint, open_queue_log
from pocketmq.broker.store.segment import (
    HEADER_SIZE,
    POSITION_MASK,
    log_number_of,
    read_segment,
)
from pocketmq.transport.clock import Clock

log = logging.getLogger("pocketmq.store")

CHECKPOINT_LOGS_MAX = 512
"""Logs that one checkpoint brings to the disk; the others wait for the next one."""

COMMIT_AT_ONCE_CONNECTIONS_MAX = 4
"""Up to so many connections each chunk is committed by itself."""

_CLEAN = "clean_stop"


class StoreSettings(msgspec.Struct, frozen=True):
    """How a store keeps its data.

    Attributes:
        segment_size: bytes of records in one file before the next is begun.
        flush_sync: answer only when the data is on the disk (SYNC_FLUSH).
        flush_timeout_ms: how long that may take.
        open_files_max: handles kept open.
        disk_warning_percent, disk_clean_percent, disk_free_min: see `disk.DiskGuard`.
    """

    segment_size: int = 64 * 1024 * 1024
    flush_sync: bool = False
    flush_timeout_ms: int = 5000
    open_files_max: int = 1024
    disk_warning_percent: float = 90.0
    disk_clean_percent: float = 85.0
    disk_free_min: int = 5 * 1024 * 1024 * 1024


class MessageStore:
    """Queue logs by topic and queue, and the turn that commits them.

    Args:
        directory: the data directory; it is made if it is missing.
        settings: how data is kept.
        clock: for store times.
        files: the disk; tests give one that fails.

    Raises:
        DirectoryInUseError, FormatError: see `store.errors`.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings,
        clock: Clock,
        files: Files | None = None,
    ) -> None:
        self.directory, self.settings, self.clock = directory, settings, clock
        self._lock = DirectoryLock(directory)
        self.files = files or Files(settings.open_files_max)
        self.disk = DiskGuard(
            directory,
            settings.disk_warning_percent,
            settings.disk_clean_percent,
            settings.disk_free_min,
        )
        try:
            self.metadata = Metadata(directory / "meta.db")
        except BaseException:
            self._lock.release()
            raise
        self.failed_reason: str | None = None
        self.on_appended: Callable[[QueueLog], object] = lambda _: None
        self.put_count = self.put_size = 0
        self._flusher = Flusher(self.files, clock, settings.flush_timeout_ms, self._fail)
        self._numbers: dict[tuple[str, int], tuple[int, Checkpoint]] = {}
        self._places: dict[int, tuple[str, int]] = {}
        self._logs: dict[tuple[str, int], QueueLog] = {}
        self._dirty: dict[QueueLog, None] = {}
        self._unsynced: dict[QueueLog, None] = {}
        self._commit_due = False
        self.in_chunk = False
        self.connections: Callable[[], int] = lambda: 0
        self._checkpointing = asyncio.Lock()
        try:
            self._recover()
        except BaseException:
            self.metadata.close()
            self._lock.release()
            raise

    # -- opening ------------------------------------------------------------------------------

    @property
    def queues_directory(self) -> Path:
        """Where the logs are: `<topic>/<queue id>/` below it."""
        return self.directory / "queues"

    def _recover(self) -> None:
        for row in self.metadata.queue_logs():
            self._enter(row.topic, row.queue_id, row.number, row.checkpoint)
        self.was_clean = self.metadata.state(_CLEAN) != "no"
        if not self.was_clean:
            log.info("the last stop was not clean: checking the end of every log")
            self._adopt_unknown_logs()
            for topic, queue_id in list(self._numbers):
                self._open(topic, queue_id)
        self.metadata.set_state(_CLEAN, "no")
        self.metadata.sync()

    def _enter(self, topic: str, queue_id: int, number: int, checkpoint: Checkpoint) -> None:
        self._numbers[topic, queue_id] = (number, checkpoint)
        self._places[number] = (topic, queue_id)

    def _adopt_unknown_logs(self) -> None:
        """Logs that the metadata lost in a power cut are found again by their own headers."""
        for directory in self.queues_directory.glob("*/*"):
            topic, queue_id = directory.parent.name, directory.name
            if not queue_id.isdigit() or (topic, int(queue_id)) in self._numbers:
                continue
            for path in sorted(directory.glob("*.log")):
                header = self.files.read(path, 0, HEADER_SIZE)
                if len(header) == HEADER_SIZE:
                    number = read_segment(path, header).log_number
                    self.metadata.adopt_queue_log(number, topic, int(queue_id))
                    self._enter(topic, int(queue_id), number, Checkpoint())
                    break

    def _open(self, topic: str, queue_id: int) -> QueueLog:
        number, checkpoint = self._numbers[topic, queue_id]
        queue_log = open_queue_log(
            self.files,
            self.queues_directory / topic / str(queue_id),
            topic,
            queue_id,
            number,
            self.settings.segment_size,
            checkpoint,
        ).queue_log
        self._logs[topic, queue_id] = queue_log
        if queue_log.end_position != checkpoint.position:
            queue_log.synced_position = min(checkpoint.position, queue_log.end_position)
            self._unsynced[queue_log] = None
        return queue_log

    # -- logs ---------------------------------------------------------------------------------

    def find_log(self, topic: str, queue_id: int) -> QueueLog | None:
        """The log of a queue; None while nothing was ever written to it."""
        queue_log = self._logs.get((topic, queue_id))
        if queue_log is None and (topic, queue_id) in self._numbers:
            queue_log = self._open(topic, queue_id)
        return queue_log

    def queue_log(self, topic: str, queue_id: int) -> QueueLog:
        """The log of a queue, made if this is the first write to it."""
        queue_log = self._logs.get((topic, queue_id))
        if queue_log is not None:
            return queue_log
        if (topic, queue_id) not in self._numbers:
            number = self.metadata.add_queue_log(topic, queue_id)
            self._enter(topic, queue_id, number, Checkpoint())
        return self._open(topic, queue_id)

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic that were written to."""
        return sorted(q for t, q in self._numbers if t == topic)

    def all_logs(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every log."""
        return list(self._numbers)

    def read_physical(self, offset: int) -> bytes:
        """The record at a physical offset; empty if there is none."""
        place = self._places.get(log_number_of(offset))
        if place is None:
            return b""
        queue_log = self.find_log(*place)
        return b"" if queue_log is None else queue_log.read_record(offset & POSITION_MASK)

    def delete_topic(self, topic: str) -> None:
        """Removes a topic's logs and settings."""
        for key in [key for key in self._numbers if key[0] == topic]:
            queue_log = self.find_log(*key)
            number, _ = self._numbers.pop(key)
            del self._places[number]
            if queue_log is not None:
                self._tell(queue_log.roll_back(), StoreError(f"topic {topic} was deleted"))
                queue_log.delete()
                self._dirty.pop(queue_log, None)
                self._unsynced.pop(queue_log, None)
                del self._logs[key]
                if queue_log.directory.is_dir():
                    queue_log.directory.rmdir()
        topic_directory = self.queues_directory / topic
        if topic_directory.is_dir() and not any(topic_directory.iterdir()):
            topic_directory.rmdir()
        self.metadata.remove_queue_logs(topic)
        self.metadata.remove_topic(topic)

    # -- appending ----------------------------------------------------------------------------

    @property
    def refusal(self) -> str | None:
        """Why nothing can be written at the moment; None if it can."""
        return self.failed_reason or self.disk.full_reason

    def store_time(self, queue_log: QueueLog) -> int:
        """The store time of the next record of a log: the clock's, but never going back."""
        now = self.clock.now_ms()
        if now < queue_log.last_timestamp:
            return queue_log.last_timestamp
        queue_log.last_timestamp = now
        return now

    def touch(self, queue_log: QueueLog) -> None:
        """Has a log, to which something was appended, committed at the end of this turn."""
        self._dirty[queue_log] = None
        if not self._commit_due and not self.in_chunk:
            self._schedule()

    def _schedule(self) -> None:
        self._commit_due = True
        asyncio.get_running_loop().call_soon(self.commit)

    def begin_chunk(self) -> None:
        """The requests of one chunk of a connection's stream are about to be handled."""
        self.in_chunk = True

    def end_chunk(self) -> None:
        """They are handled: with few connections commit at once, else when all had their turn.

        A commit at once spares a turn of the loop and so a good part of a lone sender's latency;
        with many connections one commit for all of them spares writes.
        """
        self.in_chunk = False
        if self._dirty and not self._commit_due:
            if self.connections() <= COMMIT_AT_ONCE_CONNECTIONS_MAX:
                self.commit()
            else:
                self._schedule()

    def commit(self) -> None:
        """Writes everything that was appended in this turn and tells who waits for it."""
        self._commit_due = False
        dirty, self._dirty = self._dirty, {}
        now = self.clock.now_ms()
        for queue_log in dirty:
            start_position, start_offset = queue_log.end_position, queue_log.end_offset
            try:
                waiters = queue_log.commit(now)
            except OSError as e:
                self._tell(queue_log.roll_back(), self._write_error(queue_log, e))
                continue
            self.put_count += queue_log.end_offset - start_offset
            self.put_size += queue_log.end_position - start_position
            self._unsynced[queue_log] = None
            if self.settings.flush_sync:
                later = [w.on_stored for w in waiters if w.wants_flush]
                if later:
                    self._flusher.flush(queue_log, later)
                self._tell([w for w in waiters if not w.wants_flush], None)
            else:
                for waiter in waiters:
                    waiter.on_stored(None)
            self.on_appended(queue_log)

    def _write_error(self, queue_log: QueueLog, error: OSError) -> StoreError:
        reason = f"writing to {queue_log.directory} failed: {error.strerror or error}"
        log.error("%s", reason)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self.disk.refuse(error.strerror or str(error))
            return DiskFullError(self.disk.full_reason)
        return WriteFailedError(reason)

    @staticmethod
    def _tell(waiters: list[Waiter], error: StoreError | None) -> None:
        for waiter in waiters:
            waiter.on_stored(error)

    def _fail(self, reason: str) -> None:
        # After a failed flush the kernel may have dropped the pages: nothing can be promised.
        self.failed_reason = f"{reason}; the broker must be restarted after the disk is repaired"
        log.critical("%s", self.failed_reason)

    # -- checkpoints and the end --------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Brings written logs with their indexes to the disk and notes how far they are there."""
        async with self._checkpointing:
            logs = list(self._unsynced)[:CHECKPOINT_LOGS_MAX]
            done = []
            for queue_log in logs:
                self._unsynced.pop(queue_log, None)
                try:
                    queue_log.write_index()
                    checkpoint = Checkpoint(
                        queue_log.end_position, queue_log.end_offset, queue_log.last_timestamp
                    )
                    await self._flusher.sync(queue_log, index=True)
                except FileNotFoundError:
                    continue  # the topic was deleted meanwhile
                except OSError as e:
                    self._fail(f"flushing {queue_log.directory} failed: {e}")
                    return
                done.append((queue_log.number, checkpoint))
            self.metadata.save_checkpoints(done)

    async def drain(self) -> None:
        """Returns when everybody who waits for an append has been told."""
        self.commit()
        await self._flusher.drain()

    async def close(self) -> None:
        """Commits, brings everything to the disk and marks the stop as clean."""
        await self.drain()
        while self._unsynced and self.failed_reason is None:
            await self.checkpoint()
        self._flusher.close()
        if self.failed_reason is None:
            self.metadata.set_state(_CLEAN, "yes")
            self.metadata.sync()
        self.metadata.close()
        self.files.close()
        self._lock.release()
