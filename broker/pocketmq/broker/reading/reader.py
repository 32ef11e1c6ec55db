"""Reads the messages of a queue for a consumer, whichever way the consumer asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.reading.catch_up_share import BEHIND_MIN, CatchUpShare
from pocketmq.broker.reading.filters import EVERYTHING, Selection
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.readable_log import Slice
from pocketmq.broker.store.log.segment import ENTRY_RECORD_SIZE, ENTRY_SIZE
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.clock import Clock


class ReadQuery(msgspec.Struct, eq=False):
    """What a consumer wants to read of a queue.

    Attributes:
        group_name: of the consumer.
        topic_name, queue_id, offset: where to begin.
        count_max, size_max: messages and bytes to read at the most.
        selection: which messages are wanted.
        with_sizes: whether the sizes of the records are wanted, too.
    """

    group_name: str
    topic_name: str
    queue_id: int
    offset: int
    count_max: int
    size_max: int
    selection: Selection
    with_sizes: bool


class Found(NamedTuple):
    """What a read came to.

    Attributes:
        code, status: as a pull is answered, the status as RocketMQ names it (`GetMessageStatus`).
        next_offset: where to read on.
        data: the records.
        sizes: of the records, if they were asked for and are known.
    """

    code: int
    status: str
    next_offset: int
    data: bytes = b""
    sizes: bytes = b""


class Reader:
    """Reads queues, and keeps account of what each group reads.

    Args:
        store, clock: of the broker.
        offsets: may order a group to read on elsewhere.
        progress: counts what is read.
        share: told of the work of filters.
        catch_up: told of reads of groups far behind.

    Attributes:
        catch_up: the same; while it is used up such reads are to be put off.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        offsets: ConsumerOffsets,
        progress: PullProgress,
        share: WorkShare | None = None,
        catch_up: CatchUpShare | None = None,
    ) -> None:
        self._store, self._clock, self._offsets, self._progress = store, clock, offsets, progress
        self._share = share or WorkShare()
        self.catch_up = catch_up or CatchUpShare(clock, store.counters.total, self._share)

    def read(self, query: ReadQuery) -> Found:
        """Reads what there is for a query now (`DefaultMessageStore#getMessage`).

        Raises:
            OSError, StoreError: the log cannot be read.
        """
        if self._offsets.resets:
            reset = self._offsets.take_reset(query.group_name, query.topic_name, query.queue_id)
            if reset is not None:
                return Found(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", reset)
        offset = query.offset
        queue_log = self._store.find_log(query.topic_name, query.queue_id)
        if queue_log is None or queue_log.end_offset == 0:
            if offset == 0:
                return Found(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0)
            return Found(ResponseCode.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", 0)
        low, high = queue_log.min_offset, queue_log.end_offset
        if offset < low:
            return Found(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", low)
        if offset == high:
            return Found(ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset)
        if offset > high:
            return Found(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", high)
        progress, monotonic = self._progress, self._clock.monotonic
        begin_s = monotonic()
        if offset < queue_log.unverified_end:
            part = self._read_unverified(queue_log, query)
        else:
            part = queue_log.read(offset, query.count_max, query.size_max, *query.selection)
        if query.selection is not EVERYTHING:
            looked_at = part.next_offset - offset
            self._share.took(query.selection.take_work(looked_at, part.records))
        elapsed_s = monotonic() - begin_s
        if high - offset >= BEHIND_MIN:
            self.catch_up.took(elapsed_s, len(part.data))
        progress.note(
            query.group_name,
            query.topic_name,
            query.queue_id,
            part.next_offset,
            part.records,
            len(part.data),
            elapsed_s,
        )
        if not part.records:
            return Found(
                ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", part.next_offset
            )
        sizes = _sizes_of(queue_log, offset, part) if query.with_sizes else b""
        return Found(ResponseCode.SUCCESS, "FOUND", part.next_offset, part.data, sizes)

    def put_off(self, query: ReadQuery, read: Callable[[], object]) -> bool:
        """Calls `read` when `catch_up` has a share again if a query is far behind, else False."""
        queue_log = self._store.find_log(query.topic_name, query.queue_id)
        if queue_log is None or queue_log.end_offset - query.offset < BEHIND_MIN:
            return False
        return self.catch_up.put_off(read)

    def _read_unverified(self, queue_log: QueueLog, query: ReadQuery) -> Slice:
        """Reads what an earlier run wrote, which the disk may have damaged since."""
        offset = query.offset
        try:
            part = queue_log.read(offset, query.count_max, query.size_max, *query.selection)
        except FormatError:
            self._store.index_mending.check(queue_log, offset)
            raise
        return self._store.verified(queue_log, offset, part)


def _sizes_of(queue_log: QueueLog, offset: int, part: Slice) -> bytes:
    """The sizes of neighbouring records, as they stand in their index entries; else empty."""
    if part.records != part.next_offset - offset:
        return b""
    entries = queue_log.entries(offset, part.records)
    sizes = bytearray(len(entries) // ENTRY_SIZE * 4)
    for i in range(4):  # each octet of all of them at once
        sizes[i::4] = entries[ENTRY_RECORD_SIZE.start + i :: ENTRY_SIZE]
    return bytes(sizes)
