"""Brings the logs of a data directory into order at the start of a broker.

After a stop that was not clean any log may be longer than its checkpoint. If only the process was
killed, the logs are as it left them: all but those of the broker itself are looked at while it
serves (`log_checks`). After a loss of power, or of the metadata, all are checked first.
"""

from __future__ import annotations

import logging

from pocketmq.broker.store.data_directory import DataDirectory
from pocketmq.broker.store.disk.disk import NO_ROOM
from pocketmq.broker.store.disk.errors import DamagedQueueError, DirectoryError, VersionError
from pocketmq.broker.store.log.checkpoint import Checkpoint, ends_at, file_names
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.metadata.damaged import REQUIRED_TOPICS, DamagedQueues
from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.metadata.metadata_gaps import MetadataGaps
from pocketmq.broker.store.orphan_logs import OrphanLogs
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.store")


class StoreStart:
    """Enters the known logs in the table, and checks them after a stop that was not clean.

    Args:
        directory: the data directory, whose deleted logs are removed already.
        clock: of the broker.
        checks_all: whether all logs are checked here in any case.
        logs: whose table is filled.
        damaged: the queues that could not be opened by the last run.
        orphan_logs: adopts the logs that the metadata has lost.
        metadata_gaps: learns of a stop that was not clean.
    """

    def __init__(
        self,
        directory: DataDirectory,
        clock: Clock,
        logs: QueueLogs,
        damaged: DamagedQueues,
        orphan_logs: OrphanLogs,
        metadata_gaps: MetadataGaps,
        *,
        checks_all: bool,
    ) -> None:
        self._directory, self._clock, self._logs, self._damaged = directory, clock, logs, damaged
        self._checks_all = checks_all or directory.lost_power or directory.lost_metadata
        self._orphan_logs, self._metadata_gaps = orphan_logs, metadata_gaps

    def run(self) -> None:
        """Recovers what the last run left, and marks the directory as in use.

        Raises:
            DirectoryError, FormatError: the broker cannot go on with what it found.
            WriteFailedError: the metadata cannot be written.
        """
        directory, table = self._directory, self._logs.table
        for row in directory.metadata.queue_logs():
            table.enter(row.topic, row.queue_id, row.number, row.checkpoint)
        if not directory.was_clean:
            log.info("the last stop was not clean: the end of every log is checked")
            self._orphan_logs.adopt(table, is_lost=directory.lost_metadata)
            self._reset_deleted()
            last_ms = self._check_ends() if self._checks_all else self._check_required_ends()
            stopped_ms = last_ms if self._checks_all else max(last_ms, self._clock.now_ms())
            self._metadata_gaps.note_stop(last_ms, stopped_ms, lost_all=directory.lost_metadata)
        for key in self._damaged.known_before():
            known = table.get(*key)
            if known is not None and self._logs.is_at_rest(known):
                self._open_if_sound(known)
        self._damaged.save()
        directory.mark_clean(is_clean=False)

    def _reset_deleted(self) -> None:
        """Resets the checkpoints of logs whose topic was being deleted when the last run ended."""
        table, metadata = self._logs.table, self._directory.metadata
        topics = metadata.topics()
        for known in table:
            if known.topic in topics:
                continue
            if not any(self._logs.directory_of(known).glob("*.log")):
                table.enter(known.topic, known.queue_id, known.number, Checkpoint())
                metadata.save_checkpoints([(known.number, Checkpoint())])

    def _check_ends(self) -> int:
        """Opens the logs that have grown since their checkpoints; returns the last store time.

        The others are as after a clean stop: they are opened when they are asked for.
        """
        last_ms, root = 0, str(self._logs.root)
        for known in self._logs.table:
            checkpoint, directory = known.checkpoint, f"{root}/{known.topic}/{known.queue_id}"
            names = file_names(directory)
            if checkpoint is None or not ends_at(directory, names, checkpoint):
                queue_log = self._open_if_sound(known, names)
                timestamp = queue_log.last_timestamp if queue_log else 0
            else:
                timestamp = checkpoint.timestamp
            last_ms = max(last_ms, timestamp)
        return last_ms

    def _check_required_ends(self) -> int:
        """Opens the broker's own logs, and the newest; returns the last store time that is known.

        The newest tells whether a later release has been here. The others are checked when they are
        asked for, or by `LogChecks`.
        """
        last_ms, known_logs = 0, list(self._logs.table)
        newest = max((known.number for known in known_logs), default=0)
        for known in known_logs:
            last_ms = max(last_ms, known.checkpoint.timestamp if known.checkpoint else 0)
            if known.topic in REQUIRED_TOPICS or known.number == newest:
                self._open_if_sound(known)
            else:
                self._logs.unchecked.add(known.number)
        return last_ms

    def _open_if_sound(self, known: KnownLog, names: list[str] | None = None) -> QueueLog | None:
        """Opens a log; a damaged one is recorded and left out, if the broker can do without it.

        Raises:
            FormatError, DirectoryError: the broker cannot.
        """
        try:
            return self._logs.open(known, names)
        except DamagedQueueError as e:
            if isinstance(e.__cause__, VersionError):
                raise e.__cause__ from None  # an older broker has no business here at all
            if known.topic in REQUIRED_TOPICS:
                raise
            return None
        except OSError as e:
            remedy = "free some space on its disk" if e.errno in NO_ROOM else ""
            raise DirectoryError(self._directory.path, e.strerror or str(e), remedy) from e
