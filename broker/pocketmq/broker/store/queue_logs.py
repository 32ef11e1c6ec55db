"""The queue logs of a data directory: which there are, which are open, and the way to each."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pocketmq.broker.store.data_directory import DataDirectory
from pocketmq.broker.store.deletions import Deletions
from pocketmq.broker.store.disk.disk import NO_ROOM
from pocketmq.broker.store.disk.errors import DamagedQueueError, StoreError, WriteFailedError
from pocketmq.broker.store.log.checkpoint import Checkpoint, ends_at, file_names
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.recovery import open_queue_log
from pocketmq.broker.store.log.segment import log_number_of
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.broker.store.metadata.log_table import KnownLog, LogTable
from pocketmq.broker.store.metadata.new_logs import NewLogs
from pocketmq.broker.store.metadata.open_logs import OpenLogs
from pocketmq.broker.store.writing.committer import Committer
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.store")


class QueueLogs:
    """Queue logs by topic and queue: opens those that are asked for, closes idle ones.

    Args:
        directory: where the logs are.
        segment_size: bytes of records in one file before the next is created.
        new_logs: gives numbers to logs that are written to for the first time.
        damaged: learns which logs cannot be opened.
        deletions: makes room for a log in the place of a deleted one.
        committer: knows which logs have something that is not on the disk.
        clock: for giving others their turn.

    Attributes:
        table: all logs, whether they are open or not.
        root: the directory of all logs: `<topic>/<queue id>/` below it.
        unchecked: the numbers of closed logs that may be longer than their checkpoints, since the
            process was killed; see `check`.
        dropped: called with each log whose oldest segment was removed.
    """

    def __init__(
        self,
        directory: DataDirectory,
        segment_size: int,
        new_logs: NewLogs,
        damaged: DamagedQueues,
        deletions: Deletions,
        committer: Committer,
        clock: Clock,
    ) -> None:
        self._directory, self.root, self.segment_size = directory, directory.queues, segment_size
        self._root = str(self.root)
        self._new_logs, self._damaged = new_logs, damaged
        self._deletions, self._committer, self._clock = deletions, committer, clock
        self.table = LogTable()
        self._open_logs = OpenLogs()
        self._unreadable: set[tuple[str, int]] = set()
        self.unchecked: set[int] = set()
        self.dropped = Listeners[[QueueLog]]()

    # -- finding and opening ------------------------------------------------------------------

    def find_log(self, topic: str, queue_id: int) -> QueueLog | None:
        """Returns the log of a queue; None while nothing was ever written to the queue."""
        key = (topic, queue_id)
        queue_log = self._open_logs.recent.get(key)
        if queue_log is None and (known := self.table.get(topic, queue_id)) is not None:
            queue_log = self._open_logs.find(key) or self.open(known)
        return queue_log

    def queue_log(self, topic: str, queue_id: int) -> QueueLog:
        """Returns the log of a queue, which is made if this is the first write to the queue.

        Raises:
            StoreError: it cannot be made or opened.
        """
        key = (topic, queue_id)
        queue_log = self._open_logs.recent.get(key) or self._open_logs.find(key)
        if queue_log is not None:
            return queue_log
        try:
            known = self.table.get(topic, queue_id)
            return self._new_log(topic, queue_id) if known is None else self.open(known)
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
        directory = f"{self._root}/{topic}/{queue_id}"
        if self._deletions.are_pending:  # an earlier topic of that name may have left files
            self._deletions.make_room(Path(directory))
        known = self.table.enter(topic, queue_id, self._new_logs.give_number(), Checkpoint())
        if os.path.exists(directory):
            return self.open(known)
        files, number = self._directory.files, known.number
        queue_log = QueueLog(files, directory, known.topic, queue_id, number, self.segment_size)
        self._open_logs.put((topic, queue_id), queue_log)
        return queue_log

    def enter(self, topic: str, queue_id: int, number: int) -> None:
        """Enters a new log under a number that another member of the broker set has given.

        Raises:
            FormatError, OSError, WriteFailedError: an earlier log is in its place.
        """
        if self._deletions.are_pending:
            self._deletions.make_room(Path(f"{self._root}/{topic}/{queue_id}"))
        self.table.enter(topic, queue_id, number, Checkpoint())

    def renew_numbers(self) -> None:
        """Has new logs get numbers behind those that other members of the set have given."""
        self._new_logs.renew()

    def open(self, known: KnownLog, names: list[str] | None = None) -> QueueLog:
        """Opens a log that is closed.

        Args:
            known: which one.
            names: of the files in its directory, if they were listed before.

        Raises:
            DamagedQueueError: its files are damaged, which is recorded.
            OSError: its files cannot be read at the moment.
        """
        topic, queue_id, number, checkpoint = known
        try:
            with self._damaged.recording_damage(topic, queue_id):
                queue_log = open_queue_log(
                    self._directory.files,
                    f"{self._root}/{topic}/{queue_id}",
                    topic,
                    queue_id,
                    number,
                    self.segment_size,
                    checkpoint,
                    names,
                ).queue_log
        except DamagedQueueError:
            self.unchecked.discard(number)
            raise
        self.unchecked.discard(number)
        self._open_logs.put((topic, queue_id), queue_log)
        synced = checkpoint.position if checkpoint else 0
        may_lack_sync = not self._directory.was_clean and queue_log.ends_empty
        if queue_log.written_position != synced or may_lack_sync:
            queue_log.forget_syncs_behind(synced)
            self._committer.unsynced[queue_log] = None
        return queue_log

    def check(self, known: KnownLog) -> bool:
        """Opens a log that is longer than its checkpoint; returns False if it cannot be read now.

        Nothing happens but for `unchecked` logs. Damage is recorded, as by `open`.
        """
        if known.number not in self.unchecked:
            return True
        topic, queue_id, number, checkpoint = known
        directory = f"{self._root}/{topic}/{queue_id}"
        try:
            with self._damaged.recording_damage(topic, queue_id):
                names = file_names(directory)
                has_grown = checkpoint is None or not ends_at(directory, names, checkpoint)
            if has_grown:
                self.open(known, names)
            self.unchecked.discard(number)
        except DamagedQueueError:
            self.unchecked.discard(number)  # it is recorded
        except OSError as e:
            self._log_unreadable(known, e)
            return False
        return True

    def directory_of(self, known: KnownLog) -> Path:
        """Returns the directory of a log's segments."""
        return self.root / known.topic / str(known.queue_id)

    def log_if_sound(self, topic: str, queue_id: int) -> QueueLog | None:
        """Returns the log of a queue, for listings; None also while the log is damaged."""
        try:
            return self.find_log(topic, queue_id)
        except DamagedQueueError:
            return None

    def readable_log(self, known: KnownLog) -> QueueLog | None:
        """Returns a log; None if it was deleted or cannot be read, which is logged once."""
        try:
            return self.log_if_sound(known.topic, known.queue_id)
        except (OSError, StoreError) as e:
            self._log_unreadable(known, e)
            return None

    def _log_unreadable(self, known: KnownLog, error: Exception) -> None:
        key = (known.topic, known.queue_id)
        if key not in self._unreadable:
            self._unreadable.add(key)
            log.error("%s queue %d cannot be read: %s", *key, error)

    # -- what the logs hold -------------------------------------------------------------------

    def queue_ids(self, topic: str) -> list[int]:
        """Returns the queues of a topic that were written to."""
        return self.table.queue_ids(topic)

    def read_physical(self, offset: int) -> bytes:
        """Reads the record at a physical offset; empty if there is none."""
        known = self.table.by_number(log_number_of(offset))
        if known is None:
            return b""
        queue_log = self.find_log(known.topic, known.queue_id)
        return b"" if queue_log is None else queue_log.read_record(offset)

    def end_offset(self, topic: str, queue_id: int) -> int | None:
        """Returns the offset behind the last message of a queue, without opening its log.

        0 if the queue never had a message; None if it is damaged, or cannot be read now after the
        process was killed.
        """
        known = self.table.get(topic, queue_id)
        if known is None:
            return 0
        if self.unchecked and not self.check(known):
            return None
        queue_log = self._open_logs.find((topic, queue_id))
        if queue_log is not None:
            return queue_log.end_offset
        if self._damaged.get(topic, queue_id) is not None or known.checkpoint is None:
            return None
        return known.checkpoint.offset  # else it would have been opened

    def least_end_offset(self, topic: str, queue_id: int) -> int:
        """Returns an offset that the end of a queue is not before, without a look at its files."""
        queue_log = self._open_logs.peek((topic, queue_id))
        if queue_log is not None:
            return queue_log.end_offset
        known = self.table.get(topic, queue_id)
        return 0 if known is None or known.checkpoint is None else known.checkpoint.offset

    def ends(self, topic: str) -> dict[int, int]:
        """Returns the offsets behind the last messages of a topic's queues, but damaged ones.

        No log is opened, unless it is unchecked, and none stays open longer for that.
        """
        if self.unchecked:
            for known in list(self.table.of_topic(topic).values()):
                self.check(known)
        open_logs, damaged, ends = self._open_logs, self._damaged, dict[int, int]()
        recent, are_all_recent = open_logs.recent, open_logs.are_all_recent
        is_sound = not len(damaged)
        for queue_id, known in self.table.of_topic(topic).items():
            key = topic, queue_id
            queue_log = recent.get(key) if are_all_recent else open_logs.peek(key)
            if queue_log is not None:
                ends[queue_id] = queue_log.end_offset
            elif known.checkpoint and (is_sound or damaged.get(topic, queue_id) is None):
                ends[queue_id] = known.checkpoint.offset
        return ends

    def peek(self, topic: str, queue_id: int) -> QueueLog | None:
        """Returns the log of a queue if it is open; it stays open no longer for that."""
        return self._open_logs.peek((topic, queue_id))

    # -- open logs ----------------------------------------------------------------------------

    def open_logs(self) -> list[QueueLog]:
        """Returns the logs that were asked for lately, and all with more than one segment."""
        return list(self._open_logs)

    def is_at_rest(self, known: KnownLog) -> bool:
        """Whether a log is closed, so that its last checkpoint says how far the log reaches."""
        if self.unchecked and not self.check(known):
            return False
        return (known.topic, known.queue_id) not in self._open_logs

    async def close_idle_logs(self) -> None:
        """Closes the logs that nobody has asked for since the last call but one."""
        for _ in self._open_logs.grow_older(self._may_close):
            await self._clock.sleep(0)

    def _may_close(self, queue_log: QueueLog) -> bool:
        """Whether the last checkpoint says all there is to say of a log."""
        known = self.table.by_number(queue_log.number)
        return (
            known is not None
            and known.checkpoint is not None
            and known.checkpoint[:2] == (queue_log.written_position, queue_log.written_offset)
            and queue_log.end_offset == queue_log.written_offset
            and len(queue_log.segments) <= 1
            and not queue_log.has_pending
            and not queue_log.index_tail_size
            and queue_log not in self._committer.unsynced
            and not self._committer.holds(queue_log)
        )

    def set_aside(self, known: KnownLog, target: Path) -> None:
        """Moves the files of a log to a directory; the log goes on without records.

        Args:
            known: which log; it has no checkpoint.
            target: a directory that is not there yet.

        Raises:
            OSError: they are where they were.
        """
        self.unchecked.discard(known.number)
        queue_log = self._open_logs.pop((known.topic, known.queue_id))
        if queue_log is not None:
            self._committer.forget(queue_log, StoreError("the queue is copied anew"))
        source = self.directory_of(known)
        if source.exists():
            self._directory.files.move_directory(source, target)
            self._directory.files.sync_directory(source.parent)
            self._directory.files.sync_directory(target.parent)

    def remove_topic(self, topic: str) -> None:
        """Forgets the logs of a deleted topic, and fails the appends that wait in them."""
        for known in self.table.remove_topic(topic):
            self.unchecked.discard(known.number)
            queue_log = self._open_logs.pop((topic, known.queue_id))
            if queue_log is not None:
                self._committer.forget(queue_log, StoreError(f"topic {topic} was deleted"))
