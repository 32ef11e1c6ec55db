"""Takes messages for a pop from the queues of a topic and of its retry topic."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.popping.journal import OnWritten
from pocketmq.broker.popping.ordered_batch import OrderedBatch
from pocketmq.broker.popping.pop_queues import PopQueue, PopQueues
from pocketmq.broker.popping.pop_traffic import PopTraffic
from pocketmq.broker.reading.filters import EVERYTHING, Selection
from pocketmq.broker.reading.reader import Found, Reader, ReadQuery
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.receipts import OrderedMessage, Origin, QueueOrigin
from pocketmq.protocol.messages.records import record_offsets
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.popping import ALL_QUEUES, INIT_MIN
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live

CORRECTIONS_MAX = 3
"""How often one pop corrects the offset of a queue, after a reset or a loss of old messages."""


class TakingSettings(msgspec.Struct, frozen=True):
    """The settings of pops.

    Attributes:
        size_max: bytes of one pop, beyond its first message.
        retry_percent: how many of hundred pops look at the retry topic first.
        in_flight_max, in_flight_max_of_group: messages that may be in flight.
    """

    size_max: int
    retry_percent: int
    in_flight_max: int
    in_flight_max_of_group: int

    @classmethod
    def of(cls, config: BrokerConfig) -> TakingSettings:
        """The part of a broker's settings that pops depend on."""
        return cls(
            size_max=config.max_transfer_bytes_on_message_in_memory,
            retry_percent=config.pop_from_retry_probability,
            in_flight_max=config.max_pop_in_flight,
            in_flight_max_of_group=config.max_pop_in_flight_of_group,
        )


class PopQuery(msgspec.Struct, eq=False, kw_only=True):
    """What a pop asks for.

    Attributes:
        group, topic: who pops, and the origin topic.
        queue_id: of one queue, or `ALL_QUEUES`.
        count_max: messages at the most.
        invisible_ms: for how long others do not get them.
        init_mode: where a group without an offset begins.
        selection: which messages are wanted.
        is_ordered: whether queues are blocked by what is not acknowledged.
        attempt_id: of an ordered pop.
    """

    group: str
    topic: TopicConfig
    queue_id: int
    count_max: int
    invisible_ms: int = 0
    init_mode: int = INIT_MIN
    selection: Selection = EVERYTHING
    is_ordered: bool = False
    attempt_id: str = ""


class PoppedMessages(msgspec.Struct):
    """What a pop took.

    Attributes:
        pop_ms: when.
        parts: the records, by queue.
        starts, offsets: where the read of each queue began, and what it took.
        counts: how often messages of an ordered pop were delivered before.
        rest: about how many messages are left.
        is_unfinished: whether more could be looked at right now.
        free_ms: when a blocked queue is free again; 0 if none is blocked.
        taken: the queues with the offsets that are in flight now.
    """

    pop_ms: int
    parts: list[bytes] = []
    starts: dict[QueueOrigin, int] = {}
    offsets: dict[QueueOrigin, Sequence[int]] = {}
    counts: dict[OrderedMessage, int] = {}
    rest: int = 0
    is_unfinished: bool = False
    free_ms: int = 0
    taken: list[tuple[PopQueue, Sequence[int]]] = []
    count: int = 0
    size: int = 0


class Taking:
    """Takes messages, and notes them as in flight.

    Args:
        topics, offsets, store: of the broker.
        queues: what is in flight.
        traffic: counts what is popped.
        reader: reads queues.
        clock: says when.
        rng: chooses when the retry topic comes first.
        settings: of pops.
    """

    def __init__(
        self,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
        queues: PopQueues,
        traffic: PopTraffic,
        reader: Reader,
        clock: Clock,
        rng: random.Random,
        settings: Live[TakingSettings],
    ) -> None:
        self._topics, self._offsets, self._store, self._queues = topics, offsets, store, queues
        self._read, self._clock, self._rng, self._settings = reader.read, clock, rng, settings
        self._checkpoints = traffic.checkpoints
        self._turns: dict[str, int] = {}

    def take(self, query: PopQuery, on_written: OnWritten) -> PoppedMessages:
        """Takes what there is for a pop now.

        Args:
            query: what is asked for.
            on_written: called for each queue of which messages were taken, when the journal has
                them.

        Raises:
            OSError, StoreError: a queue cannot be read.
        """
        found = PoppedMessages(self._clock.now_ms())
        settings, count = self._settings.now, self._queues.count
        is_full = (
            count >= settings.in_flight_max
            or self._queues.count_of_group(query.group) >= settings.in_flight_max_of_group
        )
        if is_full and not query.is_ordered:
            return found
        for origin, topic, queue_ids in self._sources(query, settings.retry_percent):
            for queue_id in queue_ids:
                queue_log = self._store.find_log(topic, queue_id)
                if queue_log is None or not queue_log.end_offset:
                    continue
                queue = self._queue(query, origin, topic, queue_log)
                has_room = found.count < query.count_max and (
                    not found.count or found.size < settings.size_max
                )
                if has_room:
                    if query.is_ordered:
                        self._take_in_order(query, queue, origin, found, on_written)
                    else:
                        self._take_from(query, queue, origin, found, on_written)
                if not query.is_ordered or has_room:
                    found.rest += max(queue_log.end_offset - queue.next_offset, 0)
        return found

    def has_messages(self, query: PopQuery) -> bool:
        """Whether a pop would find something to look at."""
        now_ms = self._clock.now_ms()
        for _, topic, queue_ids in self._sources(query, 0):
            for queue_id in queue_ids:
                queue_log = self._store.find_log(topic, queue_id)
                if queue_log is None or not queue_log.end_offset:
                    continue
                known = self._queues.get(query.group, topic, queue_id)
                if known is None:
                    offset = self._offsets.get(query.group, topic, queue_id)
                    next_offset = queue_log.min_offset if offset is None else offset
                elif query.is_ordered and known.batch is not None:
                    if known.batch.blocks(now_ms, query.attempt_id):
                        continue
                    next_offset = known.batch.committed
                else:
                    next_offset = known.next_offset
                if next_offset < queue_log.end_offset:
                    return True
        return False

    def peek(self, query: PopQuery) -> PoppedMessages:
        """Reads what a pop would find, and changes nothing."""
        found = PoppedMessages(self._clock.now_ms())
        for _, topic, queue_ids in self._sources(query, self._settings.now.retry_percent):
            for queue_id in queue_ids:
                queue_log = self._store.find_log(topic, queue_id)
                if queue_log is None:
                    continue
                known = self._queues.get(query.group, topic, queue_id)
                committed = self._offsets.get(query.group, topic, queue_id)
                offset = queue_log.min_offset if committed is None else committed
                if known is not None:
                    offset = known.next_offset
                offset = max(offset, queue_log.min_offset)
                found.rest += max(queue_log.end_offset - offset, 0)
                if offset < queue_log.end_offset and found.count < query.count_max:
                    part = queue_log.read(
                        offset, query.count_max - found.count, self._settings.now.size_max
                    )
                    found.parts.append(part.data)
                    found.count += part.records
        return found

    # -- where it looks -----------------------------------------------------------------------

    def _sources(
        self, query: PopQuery, retry_percent: int
    ) -> Iterator[tuple[Origin, str, Sequence[int]]]:
        """The topics to look at, in order, with their queues."""
        topic_name = query.topic.topic_name
        normal = Origin.TOPIC, topic_name, self._queue_ids(query)
        retry_topic = names.pop_retry_topic(query.group, topic_name)
        if query.is_ordered or retry_topic not in self._topics:
            yield normal
            return
        retry = Origin.RETRY_V1, retry_topic, (0,)
        if self._rng.random() * 100 < retry_percent:
            yield retry
            yield normal
        else:
            yield normal
            yield retry

    def _queue_ids(self, query: PopQuery) -> Sequence[int]:
        """The queues of the topic, beginning with another one at each pop."""
        if query.queue_id != ALL_QUEUES:
            return (query.queue_id,)
        nums = query.topic.read_queue_nums
        turn = self._turns.get(query.topic.topic_name, 0) % nums
        self._turns[query.topic.topic_name] = turn + 1
        return [*range(turn, nums), *range(turn)]

    def forget_topic(self, topic: str) -> None:
        """Forgets a deleted topic."""
        self._turns.pop(topic, None)

    def _queue(self, query: PopQuery, origin: Origin, topic: str, queue_log: QueueLog) -> PopQueue:
        queue = self._queues.get(query.group, topic, queue_log.queue_id)
        if queue is not None:
            return queue
        offset = self._offsets.get(query.group, topic, queue_log.queue_id)
        if offset is None:
            # RocketMQ begins a small topic at its begin even for INIT_MAX.
            low = queue_log.min_offset
            from_begin = query.init_mode == INIT_MIN or origin is not Origin.TOPIC or low == 0
            offset = low if from_begin else max(queue_log.end_offset - 1, low)
        return self._queues.enter(query.group, topic, queue_log.queue_id, offset)

    # -- messages in any order ----------------------------------------------------------------

    def _take_from(
        self,
        query: PopQuery,
        queue: PopQueue,
        origin: Origin,
        found: PoppedMessages,
        on_written: OnWritten,
    ) -> None:
        start, part = self._read_at(query, queue, queue.next_offset, found)
        if part is None:
            return
        if part.code != ResponseCode.SUCCESS:
            if part.next_offset > start:
                self._queues.skip(queue, part.next_offset)
                found.is_unfinished = True
            return
        offsets = record_offsets(part.data)
        self._add(found, QueueOrigin(origin, queue.queue_id), start, offsets, part.data)
        found.taken.append((queue, offsets))
        self._checkpoints[query.group, queue.topic].messages += 1
        self._queues.take(
            queue, offsets, part.next_offset, found.pop_ms, query.invisible_ms, on_written
        )

    def _read_at(
        self, query: PopQuery, queue: PopQueue, offset: int, found: PoppedMessages
    ) -> tuple[int, Found | None]:
        """Reads a queue, from a corrected offset if it has none at the given one."""
        size_max = max(self._settings.now.size_max - found.size, 1)
        for _ in range(CORRECTIONS_MAX):
            part = self._read(
                ReadQuery(
                    query.group, queue.topic, queue.queue_id, offset,
                    query.count_max - found.count, size_max, query.selection, False,
                )
            )  # fmt: skip
            if part.code != ResponseCode.PULL_OFFSET_MOVED:
                return offset, part if part.code != ResponseCode.PULL_NOT_FOUND else None
            offset = part.next_offset
            self._queues.move(queue, offset)
        return offset, None

    @staticmethod
    def _add(
        found: PoppedMessages,
        place: QueueOrigin,
        start: int,
        offsets: Sequence[int],
        data: bytes,
    ) -> None:
        found.starts[place], found.offsets[place] = start, offsets
        found.parts.append(data)
        found.count += len(offsets)
        found.size += len(data)

    # -- messages in order --------------------------------------------------------------------

    def _take_in_order(
        self,
        query: PopQuery,
        queue: PopQueue,
        origin: Origin,
        found: PoppedMessages,
        on_written: OnWritten,
    ) -> None:
        batch, offset = queue.batch, queue.next_offset
        is_reset = (query.group, queue.topic, queue.queue_id) in self._offsets.resets
        if batch is not None and not is_reset:  # the read takes a reset, and the batch is forgotten
            if batch.blocks(found.pop_ms, query.attempt_id):
                free_ms = batch.free_ms()
                found.free_ms = min(found.free_ms or free_ms, free_ms)
                return
            offset = batch.committed
        start, part = self._read_at(query, queue, offset, found)
        if part is None:
            return
        if part.code != ResponseCode.SUCCESS:
            if part.next_offset > start:
                self._queues.move(queue, part.next_offset)
                found.is_unfinished = True
            return
        offsets = record_offsets(part.data)
        place = QueueOrigin(origin, queue.queue_id)
        self._add(found, place, start, offsets, part.data)
        before = queue.batch or OrderedBatch(pop_ms=0, invisible_ms=0, offsets=[])
        after = before.next(found.pop_ms, query.invisible_ms, query.attempt_id, list(offsets))
        counts = [after.counts.get(offset, 0) for offset in offsets]
        for offset, count in zip(offsets, counts, strict=True):
            if count:
                found.counts[OrderedMessage(origin, queue.queue_id, offset)] = count
        found.counts[OrderedMessage(origin, queue.queue_id, None)] = min(counts)
        self._checkpoints[query.group, queue.topic].messages += 1
        self._queues.put_batch(queue, after, on_written)
