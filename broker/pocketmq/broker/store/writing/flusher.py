"""Flushes logs to the disk, each for all appends that wait for its flush (group commit)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pocketmq.broker.store.disk.directory_syncs import DirectorySyncs
from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import OnStored, QueueLog
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.store")

FLUSH_THREADS = 16
"""Flushes of different logs under way at once: file systems bring those to the disk together."""


class FlushTimeoutError(StoreError):
    """The disk did not take the data in time; it is written, but may not survive a power cut."""


class _Group:
    """Callbacks of one log's appends, which are called once, by the flush or by the timer."""

    __slots__ = ("callbacks", "size", "timer", "waiting_since_s")

    def __init__(self) -> None:
        self.callbacks: list[OnStored] = []
        self.timer: Timer | None = None
        self.waiting_since_s = 0.0
        self.size = 0

    def notify(self, error: StoreError | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(error)


class Flusher:
    """Brings logs to the disk in threads, each log at most once at a time.

    While a log is being flushed its next group gathers, so the number of flushes adapts to the
    disk by itself.

    Args:
        files: the disk.
        clock: for the time limit.
        timeout_ms: how long an append waits before it is answered as not flushed in time.
        on_failure: called when a flush failed: what the disk holds is then unknown.

    Attributes:
        waiting_size: bytes of appends that wait to be told.
        answered: called when some of them were answered.
    """

    def __init__(
        self, files: Files, clock: Clock, timeout_ms: int, on_failure: Callable[[str], object]
    ) -> None:
        self._files, self._clock = files, clock.machine
        self.timeout_ms = timeout_ms
        self._on_failure = on_failure
        self._directories = DirectorySyncs(files.sync_directory)
        self._threads = ThreadPoolExecutor(FLUSH_THREADS, "pocketmq-flush")
        self.waiting_size = 0
        self.answered = Listeners[[]]()
        self._waiting: dict[_Group, None] = {}  # the oldest first
        self._gathering: dict[QueueLog, _Group] = {}
        self._running: dict[QueueLog, asyncio.Task[None]] = {}
        self._syncing: dict[QueueLog, asyncio.Future[None]] = {}
        self._failure: WriteFailedError | None = None

    def oldest_wait_s(self) -> float:
        """Returns for how many seconds the oldest append has waited; 0 if none does."""
        oldest = next(iter(self._waiting), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest.waiting_since_s

    def flush(self, queue_log: QueueLog, callbacks: list[OnStored], size: int = 0) -> None:
        """Calls the callbacks when everything committed to a log so far is on the disk.

        Args:
            queue_log: the log.
            callbacks: who is to be told.
            size: bytes that they have appended.
        """
        group = self._gathering.get(queue_log)
        if group is None:
            group = self._gathering[queue_log] = _Group()
        if group.timer is None:  # a new group, or one whose first members ran out of time
            group.waiting_since_s = self._clock.monotonic()
            self._waiting[group] = None
            group.timer = self._clock.call_later(
                self.timeout_ms / 1000,
                self._notify,
                group,
                FlushTimeoutError(f"the disk took longer than {self.timeout_ms} ms to flush"),
            )
        group.callbacks += callbacks
        group.size += size
        self.waiting_size += size
        if queue_log not in self._running:
            self._running[queue_log] = asyncio.get_running_loop().create_task(
                self._flush_until_idle(queue_log), name="flush"
            )

    async def _flush_until_idle(self, queue_log: QueueLog) -> None:
        try:
            while (group := self._gathering.pop(queue_log, None)) is not None:
                try:
                    await self.sync(queue_log)
                except WriteFailedError as e:
                    self._notify(group, e)
                else:
                    self._notify(group, None)
        finally:
            del self._running[queue_log]

    def _notify(self, group: _Group, error: StoreError | None) -> None:
        group.notify(error)
        self._waiting.pop(group, None)
        self.waiting_size -= group.size
        group.size = 0
        self.answered.notify()

    async def sync(self, queue_log: QueueLog, *, index: bool = False) -> Checkpoint:
        """Brings what is committed to a log now to the disk; with `index` its index entries too.

        Returns:
            up to where the log is on the disk then.

        Raises:
            WriteFailedError: this flush or an earlier one failed. The system reports a failure
                once and may have dropped the data, so that a later success would mean nothing.
            OSError: with `index`, the log cannot be tidied at the moment.
        """
        while (other := self._syncing.get(queue_log)) is not None:
            await asyncio.wait((other,))
        done = self._syncing[queue_log] = asyncio.get_running_loop().create_future()
        try:
            return await self._sync_now(queue_log, index=index)
        finally:
            del self._syncing[queue_log]
            done.set_result(None)

    async def sync_file(self, path: Path) -> None:
        """Brings a file that is no log's to the disk, in a thread.

        Raises:
            WriteFailedError: this flush or an earlier one failed, see `sync`.
        """
        if self._failure is not None:
            raise self._failure
        try:
            await self._run(path, self._files.sync, path)
        except OSError as e:
            raise self._fail(path, e) from e

    def sync_file_at_once(self, path: Path) -> None:
        """Brings a file that is no log's to the disk, and blocks the loop meanwhile.

        Raises:
            WriteFailedError: as for `sync_file`.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._files.sync(path)
        except OSError as e:
            raise self._fail(path, e) from e

    async def _sync_now(self, queue_log: QueueLog, *, index: bool) -> Checkpoint:
        while True:
            if self._failure is not None:
                raise self._failure
            if index:
                queue_log.tidy()
            end = Checkpoint(
                queue_log.written_position, queue_log.written_offset, queue_log.last_timestamp
            )
            base = queue_log.segments[-1].base_position if queue_log.segments else -1
            paths = queue_log.unsynced_logs() + (queue_log.unsynced_indexes() if index else [])
            try:
                await self._run(
                    queue_log.directory_text, self._sync, paths, queue_log.unsynced_directories()
                )
            except FileNotFoundError as e:
                if {*queue_log.unsynced_logs(), *queue_log.unsynced_indexes()}.issuperset(paths):
                    raise self._fail(queue_log.directory, e) from e
                continue  # the topic was deleted, or retention took a segment: look again
            except OSError as e:
                raise self._fail(queue_log.directory, e) from e
            break
        queue_log.synced_position = max(queue_log.synced_position, end.position)
        queue_log.synced_base = max(queue_log.synced_base, base)
        if index:
            queue_log.indexed_position = max(queue_log.indexed_position, end.position)
        return end

    async def _run(self, path: Path | str, action: Callable[..., object], *args: object) -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, action, *args)
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            # Nobody else would be told of a failure, so it is waited for even now.
            await asyncio.wait((future,))
            error = future.exception()
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                self._fail(path, error)
            raise

    def _fail(self, path: Path | str, error: OSError) -> WriteFailedError:
        if self._failure is None:
            self._failure = WriteFailedError(f"flushing {path} failed: {error}")
            self._on_failure(str(self._failure))
        return self._failure

    def _sync(self, paths: list[Path], directories: list[Path]) -> None:
        for path in paths:
            self._files.sync(path)
        for directory in directories:
            self._directories.sync(directory)

    async def drain(self) -> None:
        """Returns when nothing waits for a flush."""
        while self._running:
            await asyncio.gather(*self._running.values())

    def close(self) -> None:
        """Ends the threads; call `drain` first."""
        self._threads.shutdown()
