"""Opens and closes the message store of one broker, and holds its parts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sized
from contextlib import ExitStack
from pathlib import Path

from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.store.data_directory import DataDirectory
from pocketmq.broker.store.deletions import Deletions
from pocketmq.broker.store.disk.errors import DirectoryError, WriteFailedError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.index_mending import IndexMending
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log_checks import LogChecks
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.broker.store.metadata.metadata_gaps import MetadataGaps
from pocketmq.broker.store.metadata.new_logs import NewLogs
from pocketmq.broker.store.orphan_logs import OrphanLogs
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.start import StoreStart
from pocketmq.broker.store.verification import Verifier
from pocketmq.broker.store.writing.checkpoints import Checkpoints
from pocketmq.broker.store.writing.committer import Committer
from pocketmq.broker.store.writing.flusher import Flusher
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.store")


class MessageStore:
    """Opens a data directory, and holds the parts that serve its queue logs.

    The methods of the parts that every append and every read calls are the store's own attributes,
    so that they cost no further step: `find_log`, `queue_log`, `schedule_commit`, `verified`.

    Args:
        directory: the data directory; it is made if it is missing.
        settings: how data is kept.
        clock: for store times.
        files: the disk; tests give one that fails.
        senders: the open connections; see `Committer`.

    Attributes:
        logs: the queue logs.
        committer: writes what was appended.
        index_mending: makes entries of an index again that do not fit the log.
        flusher: brings logs to the disk, and knows who waits for that.
        checkpoints: says up to where logs are on the disk.
        counters: count what is stored, and bulk reads.
        disk: how full the disk is, and whether it failed.
        damaged: the queues that are not served.
        orphan_logs: the topics whose settings the metadata has lost.
        metadata_gaps: times of which the metadata may have lost something.

    Raises:
        DirectoryInUseError, DirectoryError, FormatError: see `disk.errors`.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings,
        clock: Clock,
        files: Files | None = None,
        senders: Sized = (),
    ) -> None:
        self.directory, self.clock = directory, clock
        self._directory = opened = DataDirectory(directory, settings, files)
        self.files, self.metadata, self.disk = opened.files, opened.metadata, opened.disk
        with ExitStack() as stack:
            stack.callback(opened.close)
            self.flusher = Flusher(opened.files, clock, settings.flush_timeout_ms, self.disk.fail)
            stack.callback(self.flusher.close)
            self._open(settings, senders)
            self._opened = stack.pop_all()

    def _open(self, settings: StoreSettings, senders: Sized) -> None:
        opened, clock = self._directory, self.clock
        self.counters = StoreCounters(clock)
        self.damaged = DamagedQueues(self.directory, self.metadata)
        self.index_mending = IndexMending(opened.files)
        self.verified = Verifier(self.damaged, self.index_mending).verified
        self.metadata_gaps = MetadataGaps(self.metadata)
        self._new_logs = NewLogs(self.metadata)
        self._deletions = Deletions(
            opened.files, self.flusher, self.metadata, opened.queues, self.directory / "deleted"
        )
        self.committer = Committer(
            clock,
            self._new_logs,
            self.flusher,
            self.counters,
            self.disk,
            settings.flush_sync,
            senders,
        )
        self.schedule_commit, self.commit = self.committer.schedule_commit, self.committer.commit
        self.logs = logs = QueueLogs(
            opened, settings.segment_size, self._new_logs, self.damaged, self._deletions,
            self.committer, clock,
        )  # fmt: skip
        self.find_log, self.queue_log, self.queue_ids = (
            logs.find_log,
            logs.queue_log,
            logs.queue_ids,
        )
        self.topics = logs.table.topics
        self.log_if_sound, self.read_physical, self.end_offset = (
            logs.log_if_sound,
            logs.read_physical,
            logs.end_offset,
        )
        self.checkpoints = Checkpoints(
            self.committer, self.flusher, self.disk, self.metadata, logs.table
        )
        self.checkpoint, self.checkpointed = self.checkpoints.take, self.checkpoints.taken
        self.log_checks = LogChecks(logs, clock)
        self.orphan_logs = OrphanLogs(opened.files, self.metadata, opened.queues)
        try:
            self._deletions.finish()
            StoreStart(
                opened, clock, logs, self.damaged, self.orphan_logs, self.metadata_gaps,
                checks_all=settings.checks_all_logs,
            ).run()  # fmt: skip
        except WriteFailedError as e:
            raise DirectoryError(self.directory, str(e), "free some space on its disk") from e

    def use(self, settings: StoreSettings) -> None:
        """Puts other settings in force, but for the sizes of segments and the open files."""
        self.flusher.timeout_ms = settings.flush_timeout_ms
        self.committer.flush_sync = settings.flush_sync
        self.disk.set_limits(
            settings.disk_warning_percent, settings.disk_clean_percent, settings.disk_free_min
        )

    @property
    def was_clean(self) -> bool:
        """Whether the last run ended with a clean stop."""
        return self._directory.was_clean

    @property
    def lost_power(self) -> bool:
        """Whether the machine stopped under the last run: what was not synced may be gone."""
        return self._directory.lost_power

    # -- appending ----------------------------------------------------------------------------

    @property
    def refusal(self) -> str | None:
        """The reason why nothing can be written at the moment; None if it can."""
        return self.disk.refusal

    def store_time(self, queue_log: QueueLog) -> int:
        """Returns the store time of a log's next record: the clock's, but never going back."""
        now = self.clock.now_ms()
        if now < queue_log.last_timestamp:
            return queue_log.last_timestamp
        queue_log.last_timestamp = now
        return now

    # -- deleting -----------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> Awaitable[None]:
        """Removes a topic's logs and settings.

        Its files are moved away, and removed in a thread or by the next run.

        Returns:
            what to wait for until that is for good.

        Raises:
            WriteFailedError: nothing was changed; when it is awaited: nobody knows what the disk
                holds.
        """
        numbers = set(self.logs.table.numbers(topic))
        settled = self._deletions.note(topic, numbers - self._new_logs.numbers)
        self._new_logs.forget(numbers)
        self.logs.remove_topic(topic)
        self.counters.topics.pop(topic, None)
        try:
            self.damaged.forget_topic(topic)
        except WriteFailedError as e:
            log.warning("the next start forgets that %s had damaged queues: %s", topic, e)
        return settled

    def remove_deleted(self) -> None:
        """Starts to remove the files of deleted topics, also those that the last run left."""
        self._deletions.remove_moved()

    async def deleted_files_gone(self) -> None:
        """Returns when no files of deleted topics are left that can be removed."""
        await self._deletions.wait()

    # -- the end ------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Returns when the waiters of all appends were called."""
        self.commit()
        while not self.committer.is_empty:
            await self.clock.sleep(0)
        await self.flusher.drain()

    async def close(self) -> None:
        """Commits, brings everything to the disk and marks the stop as clean."""
        try:
            await self.drain()
            await self.index_mending.close()
            await self._deletions.stop()
            if self.log_checks.finish() and await self.checkpoints.take_all():
                self._directory.mark_clean(is_clean=True)
        except WriteFailedError as e:
            log.error("the stop is not clean: %s", e)
        finally:
            self._opened.close()
