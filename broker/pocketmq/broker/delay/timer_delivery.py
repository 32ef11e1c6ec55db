"""Delivers timer messages to their topics when they are due, except those that were recalled."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage, read_stored
from pocketmq.broker.counters.traffic import Traffic
from pocketmq.broker.delay.delivered import DeliveredSet
from pocketmq.broker.delay.delivery import (
    DELIVERIES_PER_TURN_MAX,
    DELIVERY_SIZE_PER_TURN_MAX,
    LOOK_AGAIN_MS_MAX,
    Delivery,
    FindTarget,
)
from pocketmq.broker.delay.progress import Steps
from pocketmq.broker.delay.timer_index import TimerIndex
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import check_record
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners

INDEXED_PER_TURN_MAX = 4096
"""New messages that one turn enters into the index."""

SPARSE_READ_MAX = 128
"""Index entries that are read together at a start where some were delivered: perhaps most."""


class TimerDelivery(Delivery):
    """Delivers the queue of the timer topic, in order of the times that its messages ask for.

    The log is the truth, and its index entries hold the due times, so that the index in memory is
    made from them at each start; which messages are delivered is kept as a bit each.

    **Recall.** A recall is a message of the same log with a negated time: that of the slot before
    its target's. So it always comes up before its target, whose key is remembered from then on
    until the slot is over, and costs 16 bytes until then.

    Args:
        store, appender: where messages wait and go.
        metadata: knows which messages were delivered.
        find_target: where a message goes; None to drop it. May raise StoreError: not now.
        precision_ms: width of RocketMQ's slots.
        counts_slots: whether the index counts the messages of each slot.

    Attributes:
        delivered: how much, since the start.
        found: the offsets among which the start has found what waits.
        copied, dropped: notified of the topic and the offset of each message that is delivered, or
            is not to be: it was recalled, or its topic was deleted.
        forgotten: notified of the topic and the offset of each recall whose slot is over.
    """

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        clock: Clock,
        appender: Appender,
        find_target: FindTarget,
        precision_ms: int,
        counts_slots: bool,
    ) -> None:
        super().__init__(
            store, clock, appender, names.TIMER_TOPIC, 0, "timer messages", find_target
        )
        self._precision_ms = precision_ms
        self.index = TimerIndex(precision_ms if counts_slots else 0)
        self.delivered = Traffic(clock.monotonic())
        self.found = range(0)
        self.copied: Listeners[[str, int]] = Listeners()
        self.dropped: Listeners[[str, int]] = Listeners()
        self.forgotten: Listeners[[str, int]] = Listeners()
        self._delivered = DeliveredSet(metadata)
        self._steps: Steps[list[int]] = Steps()
        self._next_offset = self._opened_end = 0
        self._taken: dict[int, int] = {}
        self._recalls: dict[int, str] = {}
        self._recalled: set[str] = set()
        self._is_recall_coming = False

    def open(self) -> None:
        """Goes on where the last run stopped."""
        queue_log = self._queue_log()
        self._opened_end = 0 if queue_log is None else queue_log.end_offset
        self._delivered.discard_from(self._opened_end)
        if queue_log is not None:
            self._delivered.add_before(queue_log.min_offset)
            self._next_offset = self._delivered.first_missing
            self.found = range(self._next_offset, self._opened_end)
            self.wake()

    def wake(self) -> None:
        """Starts a turn after an append: the new message may be due before the timer."""
        if self._trouble is None:
            self._cancel_timer()
        super().wake()

    def next_waiting(self, offset: int) -> int:
        """The first offset, from one on, that is not known to be delivered for good."""
        return self._delivered.next_missing(offset)

    @property
    def behind_count(self) -> int:
        """How many messages wait to be entered into the index."""
        queue_log = self._queue_log()
        return 0 if queue_log is None else max(queue_log.end_offset - self._next_offset, 0)

    @property
    def behind_ms(self) -> int:
        """How long the first of them has waited."""
        queue_log = self._queue_log()
        if queue_log is None or not self.behind_count:
            return 0
        offset = max(self._next_offset, queue_log.min_offset)
        return max(self._clock.now_ms() - queue_log.timestamp_at(offset), 0)

    def expect_recall(self) -> None:
        """A recall is about to be appended: nothing is delivered before it is in the index."""
        self._is_recall_coming = True

    # -- turns --------------------------------------------------------------------------------

    def _deliver_due(self) -> int | None:
        queue_log = self._queue_log()
        if queue_log is None:
            return None
        if self._taken:
            self.settle()  # an earlier turn was broken off
        if not self._enter_new(queue_log):
            return 0
        if self._is_recall_coming and queue_log.has_pending:
            return None  # whoever appended it wakes
        self._is_recall_coming = False
        if len(self.index) and self._store.refusal is not None:
            return self._held_up(self._store.refusal)
        now = self._clock.now_ms()
        if not self.index.advance(now):
            return 0
        for first, count in _runs(self._take(queue_log, now)):
            self._deliver(queue_log, first, count)
        if self._taken:
            return 0
        self._recovered()
        next_ms = self.index.next_ms()
        return None if next_ms is None else max(0, next_ms - now)

    def _enter_new(self, queue_log: QueueLog) -> bool:
        """Enters new messages into the index; returns whether those were all."""
        offset, left = max(self._next_offset, queue_log.min_offset), INDEXED_PER_TURN_MAX
        while left > 0:
            count = left
            if offset < self._opened_end:
                offset = min(self._delivered.next_missing(offset), self._opened_end)
                if not self._delivered.is_untouched(offset):
                    count = min(left, SPARSE_READ_MAX)
            if offset >= queue_log.end_offset:
                break
            for _, _, due_ms in ENTRY.iter_unpack(queue_log.read_entries(offset, count)):
                if offset >= self._opened_end or offset not in self._delivered:
                    self.index.add(abs(due_ms), offset << 1 | (due_ms < 0))
                offset += 1
            left -= count
        self._next_offset = offset
        return offset >= queue_log.end_offset

    def _take(self, queue_log: QueueLog, now_ms: int) -> list[int]:
        """Takes the offsets of due messages from the index, as many as one turn delivers."""
        offsets: list[int] = []
        for _ in range(DELIVERIES_PER_TURN_MAX):
            entry = self.index.pop(now_ms)
            if entry is None:
                break
            due_ms, item = entry
            offset = item >> 1
            if item & 1 and offset in self._recalls and self._taken:
                self.index.add(due_ms, item)  # its target may be among them: next turn
                break
            self._taken[item] = due_ms
            if item & 1:
                self._take_recall(queue_log, offset, due_ms)
            else:
                offsets.append(offset)
        return offsets

    def _take_recall(self, queue_log: QueueLog, offset: int, due_ms: int) -> None:
        """A recall takes effect when its slot begins, and is forgotten when the slot is over."""
        key = self._recalls.pop(offset, None)
        if key is not None:
            self._recalled.discard(key)
            self._done.add(offset)
            self.forgotten.notify(key.partition(" ")[0], offset)
            return
        part = queue_log.read(offset, 1, 1)
        if not check_record(part.data, 0, len(part.data)):
            self._damaged = offset
            raise StoreError(f"the recall at offset {offset} is damaged on the disk")
        key = _key_of(read_stored(part.data), props.TIMER_DELETE_KEY)
        self._recalls[offset] = key
        self._recalled.add(key)
        item = offset << 1 | 1
        del self._taken[item]
        self.index.add(due_ms + self._precision_ms + 1, item)

    def _deliver(self, queue_log: QueueLog, offset: int, count: int) -> None:
        end = offset + count
        while offset < end and self._failure is None:
            part = queue_log.read(offset, end - offset, DELIVERY_SIZE_PER_TURN_MAX)
            self._append_copies(offset, part)
            offset = part.next_offset

    def _append_copy(self, offset: int, message: StoredMessage) -> None:
        if self._recalled and _key_of(message, props.UNIQ_KEY) in self._recalled:
            self._drop(offset, message)
            return
        stored_ms = message.store_timestamp // self._precision_ms * self._precision_ms
        added = (
            f"{props.TIMER_ENQUEUE_MS}\x01{stored_ms}\x02"
            f"{props.TIMER_DEQUEUE_MS}\x01{self._clock.now_ms()}\x02"
        ).encode()
        if len(message.properties) + len(added) <= props.PROPERTIES_SIZE_MAX:
            message = message._replace(properties=message.properties + added)
        super()._append_copy(offset, message)

    def _drop(self, offset: int, message: StoredMessage) -> None:
        super()._drop(offset, message)
        self.dropped.notify(props.value_of(message.text, props.REAL_TOPIC) or "", offset)

    def _copy_stored(self, offset: int, target: QueueLog, error: OperatingError | None) -> None:
        super()._copy_stored(offset, target, error)
        if error is None:
            self.copied.notify(target.topic, offset)

    # -- progress -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Notes the delivered messages; the others wait again, a damaged one behind the others."""
        taken, self._taken = self._taken, {}
        damaged, self._damaged = self._damaged, None
        delivered = []
        for item, due_ms in taken.items():
            if item >> 1 in self._done:
                delivered.append(item >> 1)
            elif item >> 1 == damaged:
                self.index.add(self._clock.now_ms() + LOOK_AGAIN_MS_MAX, item)
            else:
                self.index.add(due_ms, item)
        self._done.clear()
        if delivered:
            self.delivered.messages += len(delivered)
            copies, self._copies = self._copies, {}
            self._steps.note(delivered, copies)

    def advance(self) -> int:
        """Marks messages whose copies are on the disk; returns how many steps are not."""
        for offsets in self._steps.advance():
            for offset in offsets:
                self._delivered.add(offset)
        return self._steps.waiting

    @property
    def durable_offset(self) -> int:
        """Everything before it was delivered for good, as far as `advance` knows."""
        return self._delivered.first_missing

    def save(self) -> None:
        """Saves which messages are delivered for good.

        Raises:
            WriteFailedError: it is tried again with the next call.
        """
        self.advance()
        self._delivered.save()


def _key_of(message: StoredMessage, name: str) -> str:
    """What a recall and its target have in common: the topic and the message's unique key."""
    text = message.properties.decode("utf-8", "replace")
    return f"{props.value_of(text, props.REAL_TOPIC)} {props.value_of(text, name)}"


def _runs(offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring offsets together, as (first, count)."""
    start = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            yield offsets[start], index - start
            start = index
