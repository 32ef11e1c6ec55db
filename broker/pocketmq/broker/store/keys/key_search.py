"""Searches messages by key: in the index, and in the log itself where there is no index yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.broker.store.keys.key_file import KeyFile, KeyFileError
from pocketmq.broker.store.keys.key_index import KeyIndex
from pocketmq.broker.store.keys.message_keys import IndexType, has_key, hash_of
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY, ENTRY_SIZE
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.messages.records import check_record, read_store_timestamp

COLLISIONS_MAX = 1000
"""Records of a segment that are looked at in vain: so many of one hash are no accident."""

SEGMENTS_PER_TURN = 16
"""Segments that are looked at between two turns of the loop."""

SCAN_SIZE = 1024 * 1024
SCAN_RECORDS = 4096
"""How much a search reads from a log at once, and how many records between two turns of the loop.
"""

SCAN_SIZE_MAX = 512 * 1024 * 1024
"""Bytes that one search reads of what is not indexed yet, the newest of each queue first."""


class Match(NamedTuple):
    """A message that was found; matches sort by their store times.

    Attributes:
        timestamp: when it was stored, milliseconds since the epoch.
        number: of its log.
        offset: its queue offset.
        size: bytes of the record.
    """

    timestamp: int
    number: int
    offset: int
    size: int


class Query(NamedTuple):
    """The topic, key and time span of a search.

    Attributes:
        topic: in which.
        key: a unique key, a key, or tags.
        index_type: which of these.
        count_max: the newest so many.
        begin_ms, end_ms: stored between these, both included.
    """

    topic: str
    key: bytes
    index_type: IndexType
    count_max: int
    begin_ms: int
    end_ms: int


class KeySearch:
    """Finds the messages of a topic that have a key.

    Args:
        store: where they are.
        index: its key files.
    """

    def __init__(self, store: MessageStore, index: KeyIndex) -> None:
        self._logs, self._clock, self._index = store.logs, store.clock, index

    async def find(self, query: Query) -> list[tuple[QueueLog, Match]]:
        """Returns the messages that match in the order of their storing, at most the newest
        `count_max`.

        Raises:
            OSError, FormatError: a log cannot be read.
        """
        if query.count_max <= 0 or not query.key or query.begin_ms > query.end_ms:
            return []
        found: list[tuple[Match, QueueLog]] = []
        scan = _Scan()
        for queue_id in self._logs.queue_ids(query.topic):
            queue_log = self._logs.find_log(query.topic, queue_id)
            if queue_log is not None:
                matches = await self._find_in(queue_log, query, scan)
                found += [(match, queue_log) for match in matches]
        found.sort(key=lambda pair: pair[0])
        return [
            (queue_log, match)
            for match, queue_log in found[-query.count_max :]
            if self._is_there(queue_log)
        ]

    def _is_there(self, queue_log: QueueLog) -> bool:
        return self._logs.find_log(queue_log.topic, queue_log.queue_id) is queue_log

    async def _find_in(self, queue_log: QueueLog, query: Query, scan: _Scan) -> list[Match]:
        """Returns the newest matches in one queue."""
        found: list[Match] = []
        low, high = _offsets_between(queue_log, query)
        for number, segment in enumerate(reversed(list(queue_log.segments)), 1):
            if number % SEGMENTS_PER_TURN == 0:
                await self._clock.sleep(0)
            if len(found) >= query.count_max or not self._is_there(queue_log):
                break
            if segment not in queue_log.segments:
                break  # retention took it, and all before it
            _, end = queue_log.segment_end(queue_log.segments.index(segment))
            end, start = min(end, high), max(segment.base_offset, low)
            if start >= end:
                continue
            try:
                key_file = self._index.key_file(queue_log, segment)
                middle = min(max(key_file.end_offset, start), end)
                found += _look_up(queue_log, key_file, query, start, middle)
            except KeyFileError as e:
                self._index.discard(queue_log, e, segment)
                middle = start
            while middle < end and scan.size_left > 0 and self._is_there(queue_log):
                if segment not in queue_log.segments:
                    break
                begin = max(middle, end - SCAN_RECORDS)
                found += scan.run(queue_log, query, begin, end)
                end = begin
                await self._clock.sleep(0)
        return found


class _Scan:
    """Reads records that are not indexed yet.

    Attributes:
        size_left: bytes that may still be read.
    """

    def __init__(self) -> None:
        self.size_left = SCAN_SIZE_MAX

    def run(self, queue_log: QueueLog, query: Query, offset: int, end: int) -> Iterator[Match]:
        """Yields the matches in a part of a segment."""
        while offset < end:
            data, entries = queue_log.read_with_entries(offset, end - offset, SCAN_SIZE)
            self.size_left -= len(data)
            yield from _matches_in(queue_log, data, entries, query, offset)
            offset += len(entries) // ENTRY_SIZE


def _matches_in(
    queue_log: QueueLog, data: bytes, entries: bytes, query: Query, offset: int
) -> Iterator[Match]:
    """Yields the matches among neighbouring records; most need not be looked at one by one."""
    at = data.find(query.key)
    position = 0
    for _, size, _ in ENTRY.iter_unpack(entries):
        if at < 0:
            return
        end = position + size
        if at < end:
            match = _match(queue_log, data[position:end], offset, query)
            if match is not None:
                yield match
            at = data.find(query.key, end)
        position = end
        offset += 1


def _look_up(
    queue_log: QueueLog, key_file: KeyFile, query: Query, start: int, end: int
) -> list[Match]:
    """Returns the newest matches among the indexed records from `start` to before `end`."""
    found: list[Match] = []
    in_vain = 0
    for offset in key_file.find(hash_of(query.key, query.index_type), start, end):
        record, _ = queue_log.read_with_entries(offset, 1, 0)
        match = _match(queue_log, record, offset, query)
        if match is None:
            in_vain += 1
        else:
            found.append(match)
        if len(found) >= query.count_max or in_vain >= COLLISIONS_MAX:
            break
    return found


def _match(queue_log: QueueLog, record: bytes, offset: int, query: Query) -> Match | None:
    # A damaged record is none that a search may give out, and nothing in it can be relied upon.
    if check_record(record, 0, len(record)) != len(record):
        return None
    if not has_key(record, query.key, query.index_type):
        return None
    return Match(read_store_timestamp(record), queue_log.number, offset, len(record))


def _offsets_between(queue_log: QueueLog, query: Query) -> tuple[int, int]:
    """Returns the first offset of a query's time span, and the one behind the last."""
    low, high = queue_log.min_offset, queue_log.end_offset
    if low < high and query.end_ms < queue_log.last_timestamp:
        high = queue_log.offset_at_time(query.end_ms + 1)
    if low < high and query.begin_ms > queue_log.timestamp_at(low):
        low = queue_log.offset_at_time(query.begin_ms)
    return low, high
