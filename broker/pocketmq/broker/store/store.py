"""The message store of one broker: all queue logs, from the start to a clean stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sized
from itertools import islice
from pathlib import Path

import msgspec

from pocketmq.broker.config.config import SYNC_FLUSH, BrokerConfig
from pocketmq.broker.counters.puts import Puts
from pocketmq.broker.store.deletions import Deletions
from pocketmq.broker.store.disk.disk import NO_ROOM, DiskGuard
from pocketmq.broker.store.disk.errors import (
    DamagedQueueError,
    DirectoryError,
    FormatError,
    StoreError,
    VersionError,
    WriteFailedError,
)
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.disk.lock import DirectoryLock
from pocketmq.broker.store.log.checkpoint import Checkpoint, ends_at
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.recovery import open_queue_log
from pocketmq.broker.store.log.segment import log_number_of
from pocketmq.broker.store.metadata.damaged import REQUIRED_TOPICS, DamagedQueues
from pocketmq.broker.store.metadata.log_table import KnownLog, LogTable
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.metadata.metadata_gaps import MetadataGaps
from pocketmq.broker.store.metadata.new_logs import NewLogs
from pocketmq.broker.store.metadata.open_logs import OpenLogs
from pocketmq.broker.store.orphan_logs import OrphanLogs
from pocketmq.broker.store.verification import Verifier
from pocketmq.broker.store.writing.committer import Committer
from pocketmq.broker.store.writing.flusher import FLUSH_THREADS, Flusher
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.store")

CHECKPOINT_LOGS_MAX = 512
"""Logs that one checkpoint brings to the disk; the others wait for the next one."""

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

    @classmethod
    def of(cls, config: BrokerConfig) -> StoreSettings:
        """The part of a broker's settings that the store depends on."""
        return cls(
            segment_size=config.segment_size,
            flush_sync=config.flush_disk_type == SYNC_FLUSH,
            flush_timeout_ms=config.sync_flush_timeout,
            open_files_max=config.open_files_max,
            disk_warning_percent=config.disk_space_warning_level_ratio,
            disk_clean_percent=config.disk_space_clean_forcibly_ratio,
            disk_free_min=config.disk_space_free_min,
        )


class MessageStore:
    """Queue logs by topic and queue.

    Args:
        directory: the data directory; it is made if it is missing.
        settings: how data is kept.
        clock: for store times.
        files: the disk; tests give one that fails.
        senders: the open connections; see `Committer`.

    Attributes:
        queues_directory: where the logs are: `<topic>/<queue id>/` below it.
        checkpointed: called with each log that a checkpoint has brought to the disk.
        committer: writes what was appended; `schedule_commit` and `commit` are its methods.
        bulk_reads: bulk pulls so far; what works in the background leaves time to them.

    Raises:
        DirectoryInUseError, DirectoryError, FormatError: see `store.errors`.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings,
        clock: Clock,
        files: Files | None = None,
        senders: Sized = (),
    ) -> None:
        self.directory, self.settings, self.clock = directory, settings, clock
        self.queues_directory = directory / "queues"
        self._machine = clock.machine
        self.files = files or Files(settings.open_files_max)
        try:
            self.files.make_directory(directory)
        except OSError as e:
            raise DirectoryError(directory, e.strerror or str(e)) from e
        self._lock = DirectoryLock(directory)
        try:
            self.disk = DiskGuard(
                directory,
                settings.disk_warning_percent,
                settings.disk_clean_percent,
                settings.disk_free_min,
            )
            self._check_metadata_is_there()
            self.metadata = Metadata(directory / "meta.db", self.files)
        except BaseException:
            self._lock.release()
            raise
        self.new_logs = NewLogs(self.metadata)
        self.damaged = DamagedQueues(directory, self.metadata)
        self.verified = Verifier(self.damaged).verified
        self.metadata_gaps = MetadataGaps(self.metadata)
        self.failed_reason: str | None = None
        self.checkpointed = Listeners[[QueueLog]]()
        self.puts = Puts(clock)
        self.bulk_reads = 0
        self._flusher = Flusher(self.files, clock, settings.flush_timeout_ms, self._fail)
        self._unsynced: dict[QueueLog, None] = {}
        self.committer = Committer(
            clock, self.new_logs, self._flusher, self.puts, self.disk, self._unsynced,
            settings.flush_sync, senders,
        )  # fmt: skip
        self.schedule_commit, self.commit = self.committer.schedule_commit, self.committer.commit
        self.known = LogTable()
        self._open_logs = OpenLogs()
        self._unreadable: set[tuple[str, int]] = set()
        self._deletions = Deletions(
            self.files, self._flusher, self.metadata, self.queues_directory, directory / "deleted"
        )
        self._checkpointing = asyncio.Lock()
        try:
            self.orphan_logs = OrphanLogs(self.files, self.metadata, self.queues_directory)
            self._recover()
        except BaseException as e:
            self._flusher.close()
            self.metadata.close()
            self.files.close()
            self._lock.release()
            if isinstance(e, WriteFailedError):
                raise DirectoryError(directory, str(e), "free some space on its disk") from e
            raise

    def use(self, settings: StoreSettings) -> None:
        """Goes on with other settings, but for the sizes of segments and the open files."""
        self.settings = settings
        self._flusher.timeout_ms = settings.flush_timeout_ms
        self.committer.flush_sync = settings.flush_sync
        self.disk.set_limits(
            settings.disk_warning_percent, settings.disk_clean_percent, settings.disk_free_min
        )

    # -- opening ------------------------------------------------------------------------------

    def _recover(self) -> None:
        self._deletions.finish()
        for row in self.metadata.queue_logs():
            self.known.enter(row.topic, row.queue_id, row.number, row.checkpoint)
        # Without a mark the metadata is new: then there must be no logs yet, or it was lost.
        mark = self.metadata.state(_CLEAN)
        self.was_clean = mark == "yes" or (mark is None and not self.queues_directory.exists())
        if not self.was_clean:
            log.info("the last stop was not clean: checking the end of every log")
            self.orphan_logs.adopt(self.known, is_lost=mark is None)
            self._forget_deleted()
            self.metadata_gaps.note_stop(self._check_ends(), lost_all=mark is None)
        for key in self.damaged.known_before():
            known = self.known.get(*key)
            if known is not None and key not in self._open_logs:
                self._open_if_sound(known)
        self.damaged.save()
        self.metadata.set_state(_CLEAN, "no")
        self.metadata.sync()

    def _check_ends(self) -> int:
        """Opens the logs that have grown since their checkpoints; returns the last store time.

        The others are as after a clean stop: they are opened when they are asked for.
        """
        last_ms, root = 0, str(self.queues_directory)
        for known in self.known:
            checkpoint, directory = known.checkpoint, f"{root}/{known.topic}/{known.queue_id}"
            if checkpoint is None or not ends_at(directory, checkpoint):
                queue_log = self._open_if_sound(known)
                timestamp = queue_log.last_timestamp if queue_log else 0
            else:
                timestamp = checkpoint.timestamp
            last_ms = max(last_ms, timestamp)
        return last_ms

    def directory_of(self, known: KnownLog) -> Path:
        """Where the segments of a log are."""
        return self.queues_directory / known.topic / str(known.queue_id)

    def _check_metadata_is_there(self) -> None:
        """An empty meta.db beside messages is no new one: what it knew would be gone in silence.

        Raises:
            FormatError: it is one.
        """
        path = self.directory / "meta.db"
        if self.queues_directory.exists() and path.exists() and not path.stat().st_size:
            raise FormatError(
                path,
                f"it is empty, though there are messages: restore it from a copy, or have it made "
                f"again from the logs with `pocketmq store repair {self.directory}`",
            )

    def _forget_deleted(self) -> None:
        """Logs of a topic that was being deleted, files first, when the last run ended."""
        topics = self.metadata.topics()
        for known in self.known:
            if known.topic not in topics and not any(self.directory_of(known).glob("*.log")):
                self.known.enter(known.topic, known.queue_id, known.number, Checkpoint())
                self.metadata.save_checkpoints([(known.number, Checkpoint())])

    def _open_if_sound(self, known: KnownLog) -> QueueLog | None:
        """Opens a log at the start; a damaged one is noted and left out, if the broker can.

        Raises:
            FormatError, DirectoryError: it cannot.
        """
        try:
            return self._open(known)
        except DamagedQueueError as e:
            if isinstance(e.__cause__, VersionError):
                raise e.__cause__ from None  # an older broker has no business here at all
            if known.topic in REQUIRED_TOPICS:
                raise
            return None
        except OSError as e:
            remedy = "free some space on its disk" if e.errno in NO_ROOM else ""
            raise DirectoryError(self.directory, e.strerror or str(e), remedy) from e

    def _open(self, known: KnownLog) -> QueueLog:
        topic, queue_id, number, checkpoint = known
        with self.damaged.recording_damage(topic, queue_id):
            queue_log = open_queue_log(
                self.files,
                self.directory_of(known),
                topic,
                queue_id,
                number,
                self.settings.segment_size,
                checkpoint,
            ).queue_log
        self._open_logs.put((topic, queue_id), queue_log)
        synced = checkpoint.position if checkpoint else 0
        if queue_log.end_position != synced or (not self.was_clean and queue_log.ends_empty):
            queue_log.forget_syncs_behind(synced)
            self._unsynced[queue_log] = None
        return queue_log

    # -- logs ---------------------------------------------------------------------------------

    def find_log(self, topic: str, queue_id: int) -> QueueLog | None:
        """The log of a queue; None while nothing was ever written to it."""
        key = (topic, queue_id)
        queue_log = self._open_logs.recent.get(key)
        if queue_log is None and (known := self.known.get(topic, queue_id)) is not None:
            queue_log = self._open_logs.find(key) or self._open(known)
        return queue_log

    def queue_log(self, topic: str, queue_id: int) -> QueueLog:
        """The log of a queue, made if this is the first write to it.

        Raises:
            StoreError: it cannot be made or opened.
        """
        key = (topic, queue_id)
        queue_log = self._open_logs.recent.get(key) or self._open_logs.find(key)
        if queue_log is not None:
            return queue_log
        try:
            known = self.known.get(topic, queue_id)
            return self._new_log(topic, queue_id) if known is None else self._open(known)
        except OSError as e:
            remedy = (
                "free some space on its disk"
                if e.errno in NO_ROOM
                else "look whether its disk is sound and its files may be changed by this user"
            )
            raise WriteFailedError(
                f"the log of {topic} queue {queue_id} cannot be opened: {e}; {remedy}"
            ) from e

    def _new_log(self, topic: str, queue_id: int) -> QueueLog:
        directory = self.queues_directory.joinpath(topic, str(queue_id))
        self._deletions.make_room(directory)  # an earlier topic of that name may have left files
        known = self.known.enter(topic, queue_id, self.new_logs.give_number(), Checkpoint())
        if directory.exists():
            return self._open(known)
        queue_log = QueueLog(
            self.files, directory, known.topic, queue_id, known.number, self.settings.segment_size
        )
        self._open_logs.put((topic, queue_id), queue_log)
        return queue_log

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic that were written to."""
        return self.known.queue_ids(topic)

    def open_logs(self) -> list[QueueLog]:
        """The logs that were asked for lately, and all that have more than one segment."""
        return list(self._open_logs)

    async def close_idle_logs(self) -> None:
        """Closes the logs that nobody has asked for since the last call but one."""
        for _ in self._open_logs.grow_older(self._may_close):
            await self.clock.sleep(0)

    def _may_close(self, queue_log: QueueLog) -> bool:
        """Whether the last checkpoint says all there is to say of a log."""
        known = self.known.by_number(queue_log.number)
        return (
            known is not None
            and known.checkpoint is not None
            and known.checkpoint[:2] == (queue_log.end_position, queue_log.end_offset)
            and len(queue_log.segments) <= 1
            and not queue_log.has_pending
            and not queue_log.index_tail_size
            and queue_log not in self._unsynced
            and not self.committer.holds(queue_log)
        )

    def is_at_rest(self, known: KnownLog) -> bool:
        """Whether a log is closed, so that its last checkpoint says how far it reaches."""
        return (known.topic, known.queue_id) not in self._open_logs

    def log_if_sound(self, topic: str, queue_id: int) -> QueueLog | None:
        """The log of a queue, for listings; None also while it is damaged."""
        try:
            return self.find_log(topic, queue_id)
        except DamagedQueueError:
            return None

    def readable_log(self, known: KnownLog) -> QueueLog | None:
        """A log; None if it is damaged, which is told of once, or was deleted."""
        key = (known.topic, known.queue_id)
        try:
            return self.log_if_sound(*key)
        except (OSError, StoreError) as e:
            if key not in self._unreadable:
                self._unreadable.add(key)
                log.error("%s queue %d cannot be read: %s", *key, e)
            return None

    def read_physical(self, offset: int) -> bytes:
        """The record at a physical offset; empty if there is none."""
        known = self.known.by_number(log_number_of(offset))
        if known is None:
            return b""
        queue_log = self.find_log(known.topic, known.queue_id)
        return b"" if queue_log is None else queue_log.read_record(offset)

    def end_offset(self, topic: str, queue_id: int) -> int | None:
        """Behind the last message of a queue, 0 if it never had one; None if it is damaged."""
        known = self.known.get(topic, queue_id)
        if known is None:
            return 0
        queue_log = self._open_logs.find((topic, queue_id))
        if queue_log is not None:
            return queue_log.end_offset
        if self.damaged.get(topic, queue_id) is not None or known.checkpoint is None:
            return None
        return known.checkpoint.offset  # else it would have been opened at the start

    def delete_topic(self, topic: str) -> Awaitable[None]:
        """Removes a topic's logs and settings.

        Its files are moved away, and removed in a thread or by the next run.

        Returns:
            what to wait for until that is for good.

        Raises:
            WriteFailedError: nothing was changed; when it is awaited: nobody knows what the disk
                holds.
        """
        numbers = set(self.known.numbers(topic))
        settled = self._deletions.note(topic, numbers - self.new_logs.numbers)
        self.new_logs.forget(numbers)
        removed = self.known.remove_topic(topic)
        for known in removed:
            queue_log = self._open_logs.pop((topic, known.queue_id))
            if queue_log is not None:
                self._unsynced.pop(queue_log, None)
                self.committer.forget(queue_log, StoreError(f"topic {topic} was deleted"))
        self.puts.topics.pop(topic, None)
        try:
            self.damaged.forget_topic(topic)
        except WriteFailedError as e:
            log.warning("the next start forgets that %s had damaged queues: %s", topic, e)
        return settled

    def remove_deleted(self) -> None:
        """Has the files of deleted topics removed, also what the last run did not come to."""
        self._deletions.remove_moved()

    async def deleted_files_gone(self) -> None:
        """Returns when no files of deleted topics are left that can be removed."""
        await self._deletions.wait()

    # -- appending ----------------------------------------------------------------------------

    @property
    def refusal(self) -> str | None:
        """Why nothing can be written at the moment; None if it can."""
        return self.failed_reason or self.disk.full_reason

    @property
    def flusher(self) -> Flusher:
        """Brings logs to the disk, and knows who waits for that."""
        return self._flusher

    @property
    def unflushed_size(self) -> int:
        """Bytes of records that are not known to be on the disk."""
        return sum(q.end_position - q.synced_position for q in self._unsynced)

    def store_time(self, queue_log: QueueLog) -> int:
        """The store time of the next record of a log: the clock's, but never going back."""
        now = self.clock.now_ms()
        if now < queue_log.last_timestamp:
            return queue_log.last_timestamp
        queue_log.last_timestamp = now
        return now

    def _fail(self, reason: str) -> None:
        # After a failed flush the kernel may have dropped the pages: nothing can be promised.
        self.failed_reason = f"{reason}; the broker must be restarted after the disk is repaired"
        log.critical("%s", self.failed_reason)

    def begin_segment(self, queue_log: QueueLog) -> None:
        """Begins a new segment of a log, which the next checkpoint brings to the disk.

        Raises:
            OSError: the disk is full or failed.
        """
        queue_log.begin_segment(self.clock.now_ms())
        self._unsynced[queue_log] = None

    # -- checkpoints and the end --------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Brings written logs with their indexes to the disk and notes how far they are there."""
        async with self._checkpointing:
            done: list[tuple[int, Checkpoint]] = []
            left = iter(list(islice(self._unsynced, CHECKPOINT_LOGS_MAX)))

            async def bring_to_disk() -> None:
                for queue_log in left:
                    if self.failed_reason is not None:
                        return
                    await self._bring_to_disk(queue_log, done)

            at_once = min(FLUSH_THREADS, len(self._unsynced))
            try:
                results = await asyncio.gather(
                    *(bring_to_disk() for _ in range(at_once)), return_exceptions=True
                )
            finally:
                self.metadata.save_checkpoints(done)
                for number, checkpoint in done:
                    self.known.set_checkpoint(number, checkpoint)
            for error in filter(None, results):
                raise error

    async def _bring_to_disk(self, queue_log: QueueLog, done: list[tuple[int, Checkpoint]]) -> None:
        self._unsynced.pop(queue_log, None)  # what is appended from now on enters it again
        is_synced = False
        try:
            done.append((queue_log.number, await self._flusher.sync(queue_log, index=True)))
            is_synced = True
            self.checkpointed.notify(queue_log)
        except WriteFailedError:
            pass  # `_fail` has been told
        except OSError as e:
            # The index could not be written, which the next checkpoint tries again.
            self.disk.failed_write(queue_log.directory, e)
        finally:
            if not is_synced:
                self._unsynced[queue_log] = None

    async def drain(self) -> None:
        """Returns when everybody who waits for an append has been told."""
        self.commit()
        while not self.committer.is_empty:
            await self.clock.sleep(0)
        await self._flusher.drain()

    async def close(self) -> None:
        """Commits, brings everything to the disk and marks the stop as clean."""
        try:
            await self.drain()
            await self._deletions.stop()
            await self._finish()
        except WriteFailedError as e:
            log.error("the stop is not clean: %s", e)
        finally:
            self._flusher.close()
            self.metadata.close()
            self.files.close()
            self._lock.release()

    async def _finish(self) -> None:
        while self._unsynced and self.failed_reason is None:
            waiting = len(self._unsynced)
            await self.checkpoint()
            if len(self._unsynced) >= waiting:
                log.error("%d logs cannot be brought to the disk: the stop is not clean", waiting)
                return
        if self.failed_reason is None:
            self.metadata.set_state(_CLEAN, "yes")
            self.metadata.sync()
