"""Makes a backup of a running broker: asks for what the last backup lacks, and writes it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pocketmq.broker.backup.directory import Backup, BackupDirectory, LogCopy
from pocketmq.broker.backup.packs import PackWriter, Run
from pocketmq.broker.backup.wire import (
    ENDS_TABLE,
    FROM_BEGINNING,
    WANTS_MAX,
    Damaged,
    Differs,
    Gone,
    LogEnd,
    Page,
    Part,
    Piece,
    Want,
    decode_page,
    decode_parts,
    encode_wants,
)
from pocketmq.broker.store.log.segment import ENTRY_SIZE
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.messages.records import check_record
from pocketmq.protocol.requests.extensions.backups import BackupTablesResponse
from pocketmq.runtime.clock import Clock

OnProgress = Callable[[int, int], object]
"""Told of the bytes of logs that were copied, and of those that are to be copied in all."""


class BackedUpBroker(Protocol):
    """The broker of a backup, as a client reaches it."""

    async def tables(self, snapshot: str, page: int) -> tuple[BackupTablesResponse, bytes]:
        """Asks for a page of a snapshot (31030); for a new one without a name."""

    async def logs(self, snapshot: str, wants: bytes) -> tuple[int, bytes]:
        """Asks for records (31031); returns how many wants are fulfilled, and the answers."""


class BackupOptions(NamedTuple):
    """How a backup is made.

    Attributes:
        rate: bytes a second at the most; 0 for no limit.
        keep: so many backups stay in the directory; 0 for all.
    """

    rate: int = 0
    keep: int = 0


class BackupReport(NamedTuple):
    """What a backup has copied.

    Attributes:
        backup: the new backup.
        removed: the numbers of the backups that were removed.
        incomplete: whether a queue could not be copied up to its end.
    """

    backup: Backup
    removed: list[int]
    incomplete: bool


async def back_up(
    path: Path,
    broker: BackedUpBroker,
    clock: Clock,
    options: BackupOptions | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> BackupReport:
    """Makes a backup; the earlier ones stay as they are until it is whole.

    Args:
        path: the directory of backups, which is made if it is missing.
        broker: is asked.
        clock: of the machine.
        options: how.
        on_progress: told how far it is.

    Raises:
        UsageError: the directory holds other things, or backups of another broker.
        FormatError: a backup in it is damaged.
        OperatingError: the broker cannot be asked, or another process works with the directory.
        OSError: the disk does not take it.
    """
    options = options or BackupOptions()
    directory = BackupDirectory(path)
    with directory.held(changes=True):
        directory.sweep()
        copying = _Copying(directory, broker, clock, options.rate, on_progress)
        backup = await copying.run()
        removed = directory.remove_before(options.keep) if options.keep else []
        directory.sweep()
        return BackupReport(backup, removed, copying.is_incomplete)


class _Log:
    """A log while it is copied.

    Attributes:
        end: as the snapshot has it.
        runs: what there is so far.
        ours: the last run, if this backup writes it.
        is_over: whether nothing more is asked for.
        differs: whether the last record is not the broker's.
    """

    __slots__ = ("differs", "end", "is_over", "ours", "runs")

    def __init__(self, end: LogEnd, runs: list[Run]) -> None:
        self.end, self.runs = end, runs
        self.ours: Run | None = None
        self.is_over = self.differs = False

    @property
    def want(self) -> Want:
        """What is missing."""
        end, last = self.end, self.runs[-1] if self.runs else None
        if last is None:
            return Want(end.number, end.begin, FROM_BEGINNING, end.position, None)
        check = None if self.ours is not None else last.check
        return Want(end.number, last.end_position, last.end_offset, end.position, check)

    @property
    def lacking_size(self) -> int:
        """Bytes of records that are missing."""
        return self.end.position - (self.runs[-1].end_position if self.runs else self.end.begin)

    def copy(self) -> LogCopy:
        """What the backup has of the log: all up to the end, or up to damage."""
        end, position, offset = self.end, self.end.position, self.end.offset
        if self.runs and self.runs[-1].end_position < position:
            position, offset = self.runs[-1].end_position, self.runs[-1].end_offset
        return LogCopy(
            end.number, end.topic, end.queue_id, position, offset, end.timestamp, self.runs
        )


class _Copying:
    """One backup that is being made."""

    def __init__(
        self,
        directory: BackupDirectory,
        broker: BackedUpBroker,
        clock: Clock,
        rate: int,
        on_progress: OnProgress,
    ) -> None:
        self._directory, self._broker, self._clock = directory, broker, clock
        self._rate, self._on_progress = rate, on_progress
        self._packs = PackWriter(directory.path, directory.next_pack())
        self._notes: list[str] = []
        self._copies: list[LogCopy] = []
        self._done = self._lacking = 0
        self.is_incomplete = False

    async def run(self) -> Backup:
        begun_s = self._clock.monotonic()
        numbers = self._directory.numbers()
        last = self._directory.read() if numbers else None
        head, tables, ends = await self._snapshot()
        _check_same_broker(self._directory.path, last, head)
        try:
            await self._copy(head.snapshot, self._plan(last, ends))
            await asyncio.to_thread(self._packs.finish)
        finally:
            self._packs.close()
        backup = Backup(
            numbers[-1] + 1 if numbers else 1, head.cluster_name, head.broker_name, head.set_id,
            head.epoch, head.segment_size, head.taken_ms,
            round((self._clock.monotonic() - begun_s) * 1000), self._packs.size, tables,
            sorted(self._copies, key=lambda copy: copy.number), self._notes,
        )  # fmt: skip
        await asyncio.to_thread(self._directory.add, backup)
        return backup

    async def _snapshot(self) -> tuple[BackupTablesResponse, Page, list[LogEnd]]:
        head, body = await self._broker.tables("", 0)
        tables: Page = []
        ends: list[LogEnd] = []
        for page in range(head.pages):
            if page:
                _, body = await self._broker.tables(head.snapshot, page)
            for name, rows in decode_page(body):
                if name == ENDS_TABLE:
                    ends += [LogEnd(*row) for row in rows]
                else:
                    tables.append((name, [tuple(row) for row in rows]))
        return head, tables, ends

    # -- what to copy -------------------------------------------------------------------------

    def _plan(self, last: Backup | None, ends: Sequence[LogEnd]) -> deque[_Log]:
        """Takes over what the last backup has; returns the logs of which more is wanted."""
        before = {copy.number: copy for copy in last.logs} if last else {}
        logs: deque[_Log] = deque()
        for end in ends:
            old = before.get(end.number)
            if old is not None and (old.topic, old.queue_id) != (end.topic, end.queue_id):
                old = None
            if end.position < 0:
                self._keep_damaged(end, old, "it is damaged")
                continue
            runs = [run for run in old.runs if run.end_position > end.begin] if old else []
            if old is not None and (old.position, old.offset, old.timestamp) == (
                end.position, end.offset, end.timestamp,
            ):  # fmt: skip
                self._copies.append(_Log(end, runs).copy())
                continue
            while runs and runs[-1].end_position > end.position:
                runs.pop()  # what follows the last common record is found out by `check`
            logs.append(_Log(end, runs))
        self._lacking = sum(log.lacking_size for log in logs)
        return logs

    def _keep_damaged(self, end: LogEnd, old: LogCopy | None, reason: str) -> None:
        self.is_incomplete = True
        has = f"up to offset {old.offset}" if old else "nothing"
        self._notes.append(
            f"{end.topic} queue {end.queue_id} cannot be copied ({reason}): the backup has {has} "
            f"of it; stop the broker and run `pocketmq store repair` on its directory"
        )
        if old is not None:
            self._copies.append(old)

    # -- copying ------------------------------------------------------------------------------

    async def _copy(self, snapshot: str, logs: deque[_Log]) -> None:
        begun_s = self._clock.monotonic()
        while logs:
            asked = [logs.popleft() for _ in range(min(len(logs), WANTS_MAX))]
            wants = encode_wants([log.want for log in asked])
            done, body = await self._broker.logs(snapshot, wants)
            by_number = {log.end.number: log for log in asked}
            for part in decode_parts(body):
                log = by_number.get(part.number)
                if log is None:
                    raise ContentError(f"the broker sent records of log {part.number} unasked")
                self._take(log, part)
            left = []
            for at, log in enumerate(asked):
                if log.is_over:
                    continue
                if at >= done or log.differs:
                    log.differs = False
                    left.append(log)
                    continue
                if log.lacking_size:  # retention has removed all that the snapshot had
                    log.runs.clear()
                self._copies.append(log.copy())
            logs.extendleft(reversed(left))
            self._on_progress(self._done, self._lacking)
            await self._keep_to_rate(begun_s)

    def _take(self, log: _Log, part: Part) -> None:
        end = log.end
        match part:
            case Piece():
                if (sound := _sound_size(part)) < len(part.data):
                    reason = f"the record at position {part.position + sound} fails its checks"
                    self._end_damaged(log, reason)
                elif not log.is_over:
                    self._append(log, part)
            case Differs():
                # A failover or a power cut took records that the last backup has.
                before = log.lacking_size
                log.runs.pop()
                log.differs = True
                self._lacking += log.lacking_size - before
            case Gone():
                log.is_over = True
                self._notes.append(
                    f"{end.topic} queue {end.queue_id} was deleted during the backup, and is empty "
                    f"in it"
                )
            case Damaged(reason=reason):
                self._end_damaged(log, reason)

    def _end_damaged(self, log: _Log, reason: str) -> None:
        log.is_over = True
        end = log.end
        self._keep_damaged(end, log.copy() if log.runs else None, reason)

    def _append(self, log: _Log, piece: Piece) -> None:
        if log.runs and piece.position != log.runs[-1].end_position:
            if piece.position < log.runs[-1].end_position:
                raise ContentError(
                    f"the broker sent records of {log.end.topic} at {piece.position} twice"
                )
            log.runs.clear()  # retention has removed what is between them
            log.ours = None
        run, joins = self._packs.append(piece, log.ours)
        self._done += len(piece.data)
        if joins:
            log.runs[-1] = run
        else:
            log.runs.append(run)
        log.ours = run

    async def _keep_to_rate(self, begun_s: float) -> None:
        if self._rate:
            due_s = begun_s + self._packs.size / self._rate
            await self._clock.sleep(max(due_s - self._clock.monotonic(), 0))


def _check_same_broker(path: Path, last: Backup | None, head: BackupTablesResponse) -> None:
    if last is None:
        return
    theirs, ours = (last.cluster_name, last.broker_name), (head.cluster_name, head.broker_name)
    if theirs != ours:
        raise UsageError(
            f"{path} has backups of broker {theirs[1]} of cluster {theirs[0]}, and this is "
            f"{ours[1]} of {ours[0]}: a directory for each"
        )


def _sound_size(piece: Piece) -> int:
    """Bytes up to the first record that fails its checks; all of them if none does.

    Raises:
        ContentError: records and index entries do not agree in number.
    """
    data, count = piece.data, len(piece.entries) // ENTRY_SIZE
    position = 0
    while position < len(data):
        size = check_record(data, position, len(data))
        if not size:
            return position
        position += size
        count -= 1
    if count:
        raise ContentError(f"the broker sent {count} index entries without records")
    return position
