"""Commits what was appended to the logs, at the end of a read or of the loop's iteration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence, Sized
from functools import partial
from typing import Protocol

import msgspec

from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.store.disk.disk import DiskGuard
from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog, Waiter
from pocketmq.broker.store.metadata.new_logs import NewLogs
from pocketmq.broker.store.writing.flusher import Flusher
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.store")

COMMIT_AT_ONCE_SENDERS_MAX = 4
"""With up to so many connections each read is committed by itself."""

COMMIT_READS_MAX = 256
"""Reads after which a commit does not wait for the end of the iteration: they are in memory."""

NEW_LOGS_PER_COMMIT_MAX = 16
"""Queues whose first segments one commit creates, in about 5 ms; the others wait for the next."""

NEW_LOGS_S_MAX = 0.01
"""Seconds after which a commit creates no more first segments, since the disk is busy."""


class _Growth(msgspec.Struct, gc=False):
    """The requests, messages and bytes that one commit has added to one log."""

    queue_log: QueueLog
    requests: int
    messages: int
    size: int


class Replicas(Protocol):
    """Copies what is committed to other members of a broker set, and shows it when they have it."""

    def will_write(self, queue_logs: Iterable[QueueLog]) -> None:
        """Prepares for records that a commit is about to write to some logs.

        Raises:
            WriteFailedError: they must not be written.
        """

    def hold(
        self,
        queue_log: QueueLog,
        pieces: tuple[Sequence[bytes | memoryview], Sequence[bytes]],
        start: tuple[int, int],
        waiters: list[Waiter],
        *,
        is_flushed: bool,
    ) -> list[Waiter]:
        """Takes what a commit has written to a log, and holds it back from readers.

        Args:
            queue_log: the log.
            pieces: the records and their index entries.
            start: position and offset of the first one.
            waiters: of the appends.
            is_flushed: whether those with AS_CONFIGURED wait for a flush as well.

        Returns:
            the waiters that are told of the write, or of the flush.
        """

    def turn_ends(self) -> None:
        """Sends what was taken since the last call."""


class Committer:
    """Writes the logs that grew in one iteration of the loop together, then calls their waiters.

    A server tells it of its reads (`frame_stream.ReadEvents`).

    Args:
        clock: for what is measured.
        new_logs: logs that the metadata does not know yet.
        flusher: brings what is written to the disk, if `flush_sync` asks for that.
        puts: counts what is stored.
        disk: learns of writes that fail.
        flush_sync: whether senders are answered only after a flush (SYNC_FLUSH).
        senders: the open connections; with few of them no commit waits for the iteration's end.

    Attributes:
        unsynced: logs that the next checkpoint is to bring to the disk; each that grows enters it.
        waiting_since_s: when the first append was made that a scheduled commit is to write.
        in_read: whether the requests of one read are being handled.
        appended: called with each log in which readers see more, once its senders are answered.
        replicas: copy what is written; None for a broker of its own.
    """

    def __init__(
        self,
        clock: Clock,
        new_logs: NewLogs,
        flusher: Flusher,
        puts: StoreCounters,
        disk: DiskGuard,
        flush_sync: bool,
        senders: Sized = (),
    ) -> None:
        self._machine = clock.machine
        self._new_logs, self._flusher, self._puts, self._disk = new_logs, flusher, puts, disk
        self.flush_sync = flush_sync
        self.unsynced: dict[QueueLog, None] = {}
        self.waiting_since_s: float | None = None
        self._senders = senders
        self.appended = Listeners[[QueueLog]]()
        self.replicas: Replicas | None = None
        self._dirty: dict[QueueLog, None] = {}
        self._grown: list[_Growth] = []  # what was stored, and is not counted yet
        self._is_due = False
        self.in_read = False
        self._reads = 0
        self._first_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether no log waits for a commit."""
        return not self._dirty

    def holds(self, queue_log: QueueLog) -> bool:
        """Whether a log waits for a commit."""
        return queue_log in self._dirty

    def forget(self, queue_log: QueueLog, error: StoreError) -> None:
        """Drops the appends that wait in a deleted log, and fails their waiters with an error."""
        self.unsynced.pop(queue_log, None)
        self._dirty.pop(queue_log, None)
        self._notify(queue_log.forget(), error)

    @property
    def unflushed_size(self) -> int:
        """Bytes of records that are not known to be on the disk."""
        return sum(q.written_position - q.synced_position for q in self.unsynced)

    def schedule_commit(self, queue_log: QueueLog) -> None:
        """Puts a log into the next commit, and schedules that commit unless it is due already."""
        if not self._dirty:
            self._first_s = self._machine.monotonic()
        self._dirty[queue_log] = None
        if not self._is_due and not self.in_read:
            self._schedule()

    def _schedule(self) -> None:
        self._is_due = True
        self.waiting_since_s = self._first_s
        asyncio.get_running_loop().call_soon(self.commit)

    # -- reads --------------------------------------------------------------------------------

    def read_begins(self) -> None:
        """Holds commits back while the requests of one read of a connection are handled."""
        self.in_read = True

    def read_ends(self) -> None:
        """Commits at once with few connections, else when all of them were read.

        A commit at once spares an iteration of the loop and so a good part of a lone sender's
        latency; with many connections one commit for all of them spares writes.
        """
        self.in_read = False
        if not self._dirty:
            return
        if not self._is_due:
            if len(self._senders) <= COMMIT_AT_ONCE_SENDERS_MAX:
                self._write()
            else:
                self._schedule()
        else:
            self._reads += 1
            if self._reads >= COMMIT_READS_MAX:
                self._reads = 0
                self._write()

    def replies_sent(self) -> None:
        """Counts what was stored, and calls the listeners: no sender has to wait for that."""
        if self._grown:
            self._account()

    # -- the commit ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Writes what was appended in this iteration and calls its waiters; see `_due_now`."""
        self._is_due = False
        self.waiting_since_s = None
        self._reads = 0
        self._write()
        self._account()

    def _write(self) -> None:
        dirty, self._dirty = self._dirty, {}
        first_s, count = self._first_s, 0
        new, replicas = self._new_logs.numbers, self.replicas
        if replicas is not None and not self._prepare(replicas, dirty):
            return
        for queue_log in dirty if len(dirty) == 1 and not new else self._due_now(dirty):
            start_position, start_offset = queue_log.written_position, queue_log.written_offset
            try:
                if replicas is not None:
                    pieces = queue_log.pending
                waiters = queue_log.commit(queue_log.last_timestamp, is_held=replicas is not None)
            except (OSError, WriteFailedError) as e:
                self._notify(queue_log.roll_back(), self._failure(queue_log, e))
                self.unsynced[queue_log] = None  # the next checkpoint tidies it
                continue
            self.unsynced[queue_log] = None
            size = queue_log.written_position - start_position
            requests = len(waiters)
            if replicas is not None:
                start = (start_position, start_offset)
                waiters = replicas.hold(
                    queue_log, pieces, start, waiters, is_flushed=self.flush_sync
                )
            if self.flush_sync:
                later = [w.on_stored for w in waiters if w.durability is not WRITTEN]
                if later:
                    later.append(partial(self._flushed, first_s, len(later)))
                    self._flusher.flush(queue_log, later, size)
                self._notify([w for w in waiters if w.durability is WRITTEN], None)
            else:
                for waiter in waiters:
                    waiter.on_stored(None)
                count += len(waiters)
            messages = queue_log.written_offset - start_offset
            self._grown.append(_Growth(queue_log, requests, messages, size))
        if replicas is not None:
            replicas.turn_ends()
        if count:
            self._puts.times.add(self._machine.monotonic() - first_s, count)

    def _prepare(self, replicas: Replicas, logs: Iterable[QueueLog]) -> bool:
        """Has the replicas prepare for a commit; False if nothing can be written."""
        try:
            replicas.will_write(logs)
        except WriteFailedError as e:
            log.error("nothing is written, for it cannot be replicated: %s", e)
            self._disk.learn(e)
            for queue_log in logs:
                self._notify(queue_log.roll_back(), e)
            return False
        return True

    def _account(self) -> None:
        grown, self._grown = self._grown, []
        for growth in grown:
            self._puts.count(growth.queue_log.topic, growth.requests, growth.messages, growth.size)
        if self.replicas is None:  # else they tell when readers see it
            notify = self.appended.notify
            for growth in grown:
                notify(growth.queue_log)

    def _failure(self, queue_log: QueueLog, error: OSError | WriteFailedError) -> StoreError:
        if isinstance(error, OSError):
            return self._disk.failed_write(queue_log.directory, error)
        self._disk.learn(error)
        return error

    def _due_now(self, logs: Iterable[QueueLog]) -> Iterator[QueueLog]:
        """Yields every log with a segment, and the first new ones; the rest wait for a commit."""
        new_logs: list[QueueLog] = []
        for queue_log in logs:
            if queue_log.segments:
                yield queue_log
            elif len(new_logs) < NEW_LOGS_PER_COMMIT_MAX:
                new_logs.append(queue_log)
            else:
                self._dirty[queue_log] = None
        if new_logs:
            yield from self._enter_new(new_logs)
        if self._dirty and not self._is_due:
            self._first_s = self._machine.monotonic()
            self._schedule()

    def _enter_new(self, logs: list[QueueLog]) -> Iterator[QueueLog]:
        """Enters new logs in the metadata, and yields those whose first segment may be created now.

        The others wait for the next commit, so that a slow disk does not block the loop.
        """
        until_s = self._machine.monotonic() + NEW_LOGS_S_MAX
        try:
            self._new_logs.enter(logs)
        except WriteFailedError as e:
            log.error("new queues cannot be entered: %s", e)
            self._disk.learn(e)
            for queue_log in logs:
                self._notify(queue_log.roll_back(), e)
            return
        for number, queue_log in enumerate(logs):
            if number and self._machine.monotonic() > until_s:
                self._dirty[queue_log] = None
            else:
                yield queue_log

    def _flushed(self, first_s: float, count: int, _: StoreError | None) -> None:
        self._puts.times.add(self._machine.monotonic() - first_s, count)

    def _notify(self, waiters: list[Waiter], error: StoreError | None) -> None:
        if error is not None:
            self._puts.failed_count += len(waiters)
        for waiter in waiters:
            waiter.on_stored(error)
