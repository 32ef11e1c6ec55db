"""Checks records that an earlier run wrote before they are first served."""

from __future__ import annotations

import struct

from pocketmq.broker.store.disk.errors import DamagedQueueError, FormatError, IndexMendingError
from pocketmq.broker.store.index_mending import IndexMending
from pocketmq.broker.store.log.lost_records import is_lost
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.readable_log import Slice
from pocketmq.broker.store.log.segment import log_number_of
from pocketmq.broker.store.metadata.damaged import DamagedQueues
from pocketmq.protocol.messages.records import QUEUE_OFFSET_AT, check_record

_OFFSETS = struct.Struct(">qq")


class Verifier:
    """Checks the records of a read that no check of this run has covered.

    What this run appended, or recovery checked, was sound in memory and is not looked at again.
    Of the rest, each log's verified offsets are remembered as one range, which grows with the
    consumers that read on, so several groups pay once.

    Args:
        damaged: records queues with a damaged record.
        index_mending: finds out whether only the index is damaged.
    """

    def __init__(self, damaged: DamagedQueues, index_mending: IndexMending) -> None:
        self._damaged, self._index_mending = damaged, index_mending
        self._ranges: dict[int, tuple[int, int]] = {}

    def verified(self, queue_log: QueueLog, offset: int, part: Slice) -> Slice:
        """Returns the records of a read up to the first one that is damaged or lost.

        With lost ones first it goes on behind them, as a filter does behind what does not match.

        Args:
            queue_log: whose `unverified_end` is behind the offset.
            offset: where was read.
            part: what was read.

        Raises:
            DamagedQueueError: the first record is damaged.
            IndexMendingError: its index entry is, and is made again.
        """
        low, high = self._ranges.get(queue_log.number, (offset, offset))
        if low <= offset and part.next_offset <= high:
            return part
        data, end = part.data, len(part.data)
        is_run = part.records == part.next_offset - offset
        position, last = 0, offset - 1
        for count in range(part.records):
            size = check_record(data, position, end)
            found = _OFFSETS.unpack_from(data, position + QUEUE_OFFSET_AT) if size else (-1, 0)
            is_next = found[0] == last + 1 if is_run else last < found[0] < part.next_offset
            if not is_next or log_number_of(found[1]) != queue_log.number:
                try:
                    self._index_mending.check(queue_log, last + 1)
                    raise self._note(queue_log, last + 1)
                except (DamagedQueueError, IndexMendingError):
                    if not count:
                        raise
                return Slice(data[:position], count, last + 1)
            if is_lost(data, position):
                if count:
                    return Slice(data[:position], count, last + 1)
                return Slice(b"", 0, found[0] + 1)
            position, last = position + size, found[0]
        if is_run:
            joined = low <= part.next_offset and offset <= high
            self._ranges[queue_log.number] = (
                (min(low, offset), max(high, part.next_offset))
                if joined
                else (offset, part.next_offset)
            )
        return part

    def _note(self, queue_log: QueueLog, offset: int) -> DamagedQueueError:
        error = FormatError(
            queue_log.directory,
            f"the record at offset {offset} or right behind it is damaged, and is not served",
        )
        topic, queue_id = queue_log.topic, queue_log.queue_id
        return self._damaged.record(topic, queue_id, error, stays_in_service=True)
