"""Takes the checkpoints of a store: logs come to the disk, and the metadata says how far."""

from __future__ import annotations

import asyncio
import logging
from itertools import islice

from pocketmq.broker.store.disk.disk import DiskGuard
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.metadata.log_table import LogTable
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.writing.committer import Committer
from pocketmq.broker.store.writing.flusher import FLUSH_THREADS, Flusher
from pocketmq.runtime.listeners import Listeners

log = logging.getLogger("pocketmq.store")

CHECKPOINT_LOGS_MAX = 512
"""Logs that one checkpoint brings to the disk; the others wait for the next one."""


class Checkpoints:
    """Brings the logs that have grown to the disk, with their indexes.

    Args:
        committer: knows which logs have grown.
        flusher: brings a log to the disk.
        disk: learns of writes that fail.
        metadata: keeps the checkpoints.
        table: of all logs, with their last checkpoints.

    Attributes:
        taken: called with each log that a checkpoint has brought to the disk.
    """

    def __init__(
        self,
        committer: Committer,
        flusher: Flusher,
        disk: DiskGuard,
        metadata: Metadata,
        table: LogTable,
    ) -> None:
        self._unsynced, self._flusher, self._disk = committer.unsynced, flusher, disk
        self._metadata, self._table = metadata, table
        self.taken = Listeners[[QueueLog]]()
        self._running = asyncio.Lock()

    async def take(self) -> None:
        """Brings logs that have grown to the disk, and saves how far each of them is there."""
        async with self._running:
            done: list[tuple[int, Checkpoint]] = []
            left = iter(list(islice(self._unsynced, CHECKPOINT_LOGS_MAX)))

            async def bring_to_disk() -> None:
                for queue_log in left:
                    if self._disk.failed_reason is not None:
                        return
                    await self._bring_to_disk(queue_log, done)

            at_once = min(FLUSH_THREADS, len(self._unsynced))
            try:
                results = await asyncio.gather(
                    *(bring_to_disk() for _ in range(at_once)), return_exceptions=True
                )
            finally:
                self._metadata.save_checkpoints(done)
                for number, checkpoint in done:
                    self._table.set_checkpoint(number, checkpoint)
            for error in filter(None, results):
                raise error

    async def _bring_to_disk(self, queue_log: QueueLog, done: list[tuple[int, Checkpoint]]) -> None:
        self._unsynced.pop(queue_log, None)  # what is appended from now on enters it again
        is_synced = False
        try:
            done.append((queue_log.number, await self._flusher.sync(queue_log, index=True)))
            is_synced = True
            self.taken.notify(queue_log)
        except WriteFailedError:
            pass  # the flusher has reported the failure
        except OSError as e:
            # The index could not be written, which the next checkpoint tries again.
            self._disk.failed_write(queue_log.directory, e)
        finally:
            if not is_synced:
                self._unsynced[queue_log] = None

    async def take_all(self) -> bool:
        """Brings all logs to the disk; returns False if some of them cannot be brought there."""
        while self._unsynced and self._disk.failed_reason is None:
            waiting = len(self._unsynced)
            await self.take()
            if len(self._unsynced) >= waiting:
                log.error("%d logs cannot be brought to the disk: the stop is not clean", waiting)
                return False
        return self._disk.failed_reason is None
