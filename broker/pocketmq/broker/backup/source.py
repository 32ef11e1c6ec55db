"""The broker's side of a backup: a snapshot of one moment, and the records before it.

A backup is like a follower that joins, takes what it lacks and leaves. But it asks for each piece,
so that the broker sends no more than the backup can write, and keeps only the snapshot for it.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pocketmq.broker.backup.wire import (
    ENDS_TABLE,
    FROM_BEGINNING,
    Damaged,
    Differs,
    Gone,
    LogEnd,
    Part,
    Piece,
    Want,
    checksum,
    encode_page,
)
from pocketmq.broker.store.disk.errors import FormatError, StoreError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY_SIZE, HEADER_SIZE
from pocketmq.broker.store.metadata.common_tables import LOG_TABLE, read_common_tables
from pocketmq.broker.store.metadata.log_epochs import span_in
from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.slices import next_slice

PIECE_SIZE_MAX = 1024 * 1024
"""Bytes of records in one piece, but always one record."""

ANSWER_SIZE_MAX = 4 * 1024 * 1024
"""Bytes of records after which an answer ends, with the piece that is under way."""

SNAPSHOTS_MAX = 2
"""Snapshots that are kept; the oldest is forgotten for a further one."""

LOGS_PER_SLICE = 500
"""Logs that are listed between two turns of the loop."""

SLICE_S = 0.002
"""Reads of one request that take longer go on in a later turn of the loop."""

WARMED_SIZE_MIN = 64 * 1024
"""A thread reads more bytes than these first, so that the loop does not wait for a disk."""

WARMING_READ_SIZE = 256 * 1024


class Snapshot(NamedTuple):
    """The metadata of one moment, and where each log ended.

    Attributes:
        name: by which backups ask for it.
        taken_ms: when it was taken.
        pages: rows of tables, encoded; none any more when records were asked for.
    """

    name: str
    taken_ms: int
    pages: list[bytes]


class SnapshotGoneError(OperatingError):
    """A broker does not know a snapshot any more."""

    def __str__(self) -> str:
        return (
            "the broker was restarted, or another member of its set leads, or other backups have "
            "begun since this one: run the backup again, which keeps what it has of earlier ones"
        )


class BackupSource:
    """Gives backups what a broker has.

    Args:
        store: of the broker.
        save: writes to the metadata what is only in memory.
        wait_for_share: returns when a costly read may be made.
        took: is told of the seconds and bytes of such a read.
        run_name: that no other run of a broker, and no other leadership, ever has.
    """

    def __init__(
        self,
        store: MessageStore,
        save: Callable[[], Awaitable[object]],
        wait_for_share: Callable[[], Awaitable[object]],
        took: Callable[[float, int], object],
        run_name: str,
    ) -> None:
        self._store, self._save, self._run_name = store, save, run_name
        self._wait_for_share, self._took = wait_for_share, took
        self._clock = store.clock.machine
        self._snapshots: deque[Snapshot] = deque(maxlen=SNAPSHOTS_MAX)
        self._taking = asyncio.Lock()
        self._count = 0

    # -- the snapshot -------------------------------------------------------------------------

    async def take_snapshot(self) -> Snapshot:
        """Takes a snapshot, which has everything that was acknowledged before."""
        async with self._taking:
            await self._save()
            await self._check_logs()
            self._store.commit()
            # Up to the first rows nothing waits: logs and metadata are of one moment.
            taken_ms = self._store.clock.now_ms()
            known_logs = list(self._store.logs.table)
            ends = {log.number: _end_of(log) for log in self._store.logs.open_logs()}
            pages = []
            for name, rows in read_common_tables(self._store.metadata):
                if name != LOG_TABLE:
                    pages.append(encode_page([(name, rows)]))
                await next_slice(self._clock)
            pages += [page async for page in self._end_pages(known_logs, ends)]
            self._count += 1
            snapshot = Snapshot(f"{self._run_name}-{self._count}", taken_ms, pages)
            self._snapshots.append(snapshot)
            return snapshot

    async def _check_logs(self) -> None:
        """Has the checkpoints of logs at rest say where these end, if the broker was killed."""
        logs = self._store.logs
        await self._store.log_checks.check_once()
        for known in map(logs.table.by_number, logs.unchecked):
            if known is not None:
                raise StoreError(
                    f"{known.topic} queue {known.queue_id} cannot be read: look whether its disk "
                    f"is sound and its files may be read by this user"
                )

    def snapshot(self, name: str) -> Snapshot:
        """Returns a snapshot that was taken.

        Raises:
            SnapshotGoneError: it is not known any more.
        """
        for snapshot in self._snapshots:
            if snapshot.name == name:
                return snapshot
        raise SnapshotGoneError

    async def _end_pages(
        self, known_logs: Sequence[KnownLog], ends: Mapping[int, LogEnd | None]
    ) -> AsyncIterator[bytes]:
        for start in range(0, len(known_logs), LOGS_PER_SLICE):
            some = known_logs[start : start + LOGS_PER_SLICE]
            at_rest = [known for known in some if known.number not in ends]
            begins = await asyncio.to_thread(self._begins, at_rest)
            rows: list[tuple[Any, ...]] = []
            for known in some:
                if known.number in ends:
                    end = ends[known.number]
                else:
                    end = self._end_at_rest(known, begins[known.number])
                if end is not None:
                    rows.append(end.row)
            yield encode_page([(ENDS_TABLE, rows)])
            await next_slice(self._clock)

    def _begins(self, logs: Iterable[KnownLog]) -> dict[int, int]:
        """Where logs at rest begin, by the names of their files; in a thread."""
        return {known.number: _first_position(self._store, known) for known in logs}

    def _end_at_rest(self, known: KnownLog, begin: int) -> LogEnd | None:
        place = (known.number, known.topic, known.queue_id)
        checkpoint = known.checkpoint
        if checkpoint is None or self._store.damaged.get(known.topic, known.queue_id) is not None:
            return LogEnd(*place, 0, -1, 0, 0)
        if not checkpoint.position:
            return None
        return LogEnd(*place, min(begin, checkpoint.position), *checkpoint)

    # -- the records --------------------------------------------------------------------------

    async def read(self, snapshot: str, wants: Sequence[Want]) -> tuple[int, list[Part]]:
        """Reads what a backup wants, in order, up to `ANSWER_SIZE_MAX`.

        Returns:
            how many wants are fulfilled, and what was read, perhaps a beginning of the next want,
            too.

        Raises:
            SnapshotGoneError: the snapshot is not known any more.
        """
        self.snapshot(snapshot).pages.clear()  # whoever asks for records has them
        parts: list[Part] = []
        room, begun_s = ANSWER_SIZE_MAX, self._clock.stopwatch()
        for done, want in enumerate(wants):
            position, offset, check = want.position, want.offset, want.check
            while True:
                await self._wait_for_share()
                if self._clock.stopwatch() - begun_s > SLICE_S:
                    await next_slice(self._clock)
                    begun_s = self._clock.stopwatch()
                part = await self._part_of(want, position, offset, check)
                if part is None:
                    break
                parts.append(part)
                if not isinstance(part, Piece):
                    break
                check = None
                position = part.position + len(part.data)
                offset = part.offset + len(part.entries) // ENTRY_SIZE
                room -= len(part.data)
                if room <= 0 and position < want.end:
                    return done, parts
            if room <= 0:
                return done + 1, parts
        return len(wants), parts

    async def _part_of(
        self, want: Want, position: int, offset: int, check: int | None
    ) -> Part | None:
        """The next part of what is wanted of a log; None if there is no more."""
        known = self._store.logs.table.by_number(want.number)
        if known is None:
            return Gone(want.number)
        try:
            queue_log = self._store.find_log(known.topic, known.queue_id)
            if queue_log is None:
                return Gone(want.number)
            if check is not None and not _is_same(queue_log, position, offset, check):
                return Differs(want.number)
            if position >= want.end or not queue_log.segments:
                return None
            await _warm(queue_log, position, min(PIECE_SIZE_MAX, want.end - position))
            if not queue_log.segments:  # it was deleted meanwhile
                return Gone(want.number)
            begun_s = self._clock.stopwatch()
            piece = _piece(self._store.metadata, queue_log, want, position, offset)
            self._took(self._clock.stopwatch() - begun_s, len(piece.data) if piece else 0)
            return piece
        except (StoreError, OSError) as e:
            return Damaged(want.number, str(e))


def _end_of(queue_log: QueueLog) -> LogEnd | None:
    """The row of an open log; None while nothing was ever written to it."""
    position = queue_log.written_position
    if not position:
        return None
    begin = queue_log.segments[0].base_position if queue_log.segments else position
    return LogEnd(
        queue_log.number, queue_log.topic, queue_log.queue_id, begin, position,
        queue_log.written_offset, queue_log.last_timestamp,
    )  # fmt: skip


def _first_position(store: MessageStore, known: KnownLog) -> int:
    """Where the oldest segment of a log at rest begins."""
    with suppress(FileNotFoundError):  # it is deleted meanwhile
        names = os.listdir(store.logs.directory_of(known))
        stems = [name.removesuffix(".log") for name in names if name.endswith(".log")]
        return min((int(stem) for stem in stems if stem.isdecimal()), default=0)
    return 0


def _is_same(queue_log: QueueLog, position: int, offset: int, check: int) -> bool:
    """Whether the record before a place is the one that a backup has."""
    if not queue_log.segments or not (
        queue_log.segments[0].base_offset < offset <= queue_log.written_offset
    ):
        return False
    before, record = queue_log.written_record(offset - 1)
    return before + len(record) == position and checksum(record) == check


async def _warm(queue_log: QueueLog, position: int, size: int) -> None:
    """Has a thread read some bytes of a log, which the system then has in memory."""
    index = bisect_right(queue_log.segments, position, key=lambda s: s.base_position) - 1
    if index < 0 or size < WARMED_SIZE_MIN:
        return
    segment = queue_log.segments[index]
    at = position - segment.base_position + HEADER_SIZE
    await asyncio.to_thread(_read_and_forget, segment.log_file, at, size)


def _read_and_forget(path: str, at: int, size: int) -> None:
    with suppress(OSError), open(path, "rb") as file:  # the loop's own read tells of errors
        for start in range(at, at + size, WARMING_READ_SIZE):
            if not os.pread(file.fileno(), WARMING_READ_SIZE, start):
                return


def _piece(
    metadata: Metadata, queue_log: QueueLog, want: Want, position: int, offset: int
) -> Piece | None:
    """Reads records of one segment and one epoch, before the end that is wanted.

    Raises:
        StoreError, OSError: they cannot be read.
    """
    first = queue_log.segments[0]
    if offset == FROM_BEGINNING or position < first.base_position:
        position, offset = first.base_position, first.base_offset
    if position >= want.end:
        return None
    epoch, epoch_end = span_in(metadata.epochs_of_log(want.number), position)
    size = min(PIECE_SIZE_MAX, want.end - position)
    if epoch_end is not None:
        size = min(size, epoch_end - position)
    data, entries = queue_log.read_written(position, offset, size)
    if not data:
        raise FormatError(
            queue_log.directory,
            f"it ends at position {queue_log.written_position}, before {want.end}: run the backup "
            f"again",
        )
    last = offset + len(entries) // ENTRY_SIZE - 1
    timestamp = queue_log.written_timestamp(last)
    return Piece(want.number, epoch, position, offset, timestamp, entries, data)
