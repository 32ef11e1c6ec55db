"""Delivers the messages of one delay level to their topics when they are due."""

from __future__ import annotations

import logging
import math

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.delay.delivery import (
    DELIVERIES_PER_TURN_MAX,
    DELIVERY_SIZE_PER_TURN_MAX,
    Delivery,
    FindTarget,
)
from pocketmq.broker.delay.progress import Progress
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.broker")


class LevelDelivery(Delivery):
    """Delivers one queue of the schedule topic, in order.

    **The clock.** A message is due when the wall clock shows the time that it carries. After the
    wall clock was set back, a message that waits already is also due once its full delay has passed
    on the monotonic clock since the step was noticed.

    Args:
        store, appender: where messages wait and go.
        queue_id: the level less one.
        delay_ms: of the level.
        offset: of the first message that is not known to be delivered.
        find_target: where a message goes; None to drop it. May raise StoreError: not now.

    Attributes:
        delay_ms: may be changed; it is for messages that come later.
        offset: everything before it was delivered.
        progress: the same as far as it is on the disk.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        appender: Appender,
        queue_id: int,
        delay_ms: int,
        offset: int,
        find_target: FindTarget,
    ) -> None:
        name = f"delay level {queue_id + 1}"
        super().__init__(store, clock, appender, names.SCHEDULE_TOPIC, queue_id, name, find_target)
        self.delay_ms = delay_ms
        self.offset = offset
        self.progress = Progress(offset)
        self._seen_ms = 0
        self._set_back_end = 0
        self._set_back_at_s = 0.0

    def open(self) -> None:
        """Goes on where the last run stopped."""
        queue_log = self._queue_log()
        if queue_log is None:
            return
        within = min(max(self.offset, queue_log.min_offset), queue_log.end_offset)
        if within != self.offset:
            log.warning(
                "%s goes on at offset %d instead of %d: its queue holds %d to %d",
                self._name, within, self.offset, queue_log.min_offset,
                queue_log.end_offset,
            )  # fmt: skip
            self.offset = within
            self.progress = Progress(within)
        self._seen_ms = queue_log.last_timestamp
        self.wake()

    def look_at_clock(self, queue_log: QueueLog) -> int:
        """Returns the wall clock's time, and notes if it was set back since the last call."""
        now = self._clock.now_ms()
        if now < self._seen_ms:
            self._set_back_end = queue_log.next_offset
            self._set_back_at_s = self._clock.monotonic()
        self._seen_ms = now
        return now

    def _deliver_due(self) -> int | None:
        """Appends copies of what is due; milliseconds until the next is, None if nothing waits."""
        queue_log = self._queue_log()
        if queue_log is None:
            return None
        self.offset = max(self.offset, queue_log.min_offset)
        if self.offset >= queue_log.end_offset:
            return None
        if self._store.refusal is not None:
            return self._held_up(self._store.refusal)
        count, wait_ms = self._count_due(queue_log)
        if count:
            part = queue_log.read(self.offset, count, DELIVERY_SIZE_PER_TURN_MAX)
            self._append_copies(self.offset, part)
        return wait_ms

    def _count_due(self, queue_log: QueueLog) -> tuple[int, int]:
        """How many messages are due, or else in how many milliseconds the first one is."""
        now = self.look_at_clock(queue_log)
        entries = queue_log.read_entries(self.offset, DELIVERIES_PER_TURN_MAX)
        count = first_ms = 0
        for _, _, deliver_ms in ENTRY.iter_unpack(entries):
            first_ms = first_ms or deliver_ms
            if deliver_ms > now:
                break
            count += 1
        if count:
            return count, 0
        wait_ms = first_ms - now
        if self.offset < self._set_back_end:
            whole_ms = max(self.delay_ms, first_ms - queue_log.timestamp_at(self.offset))
            passed_ms = (self._clock.monotonic() - self._set_back_at_s) * 1000
            wait_ms = min(wait_ms, math.ceil(whole_ms - passed_ms))
        return (0, wait_ms) if wait_ms > 0 else (1, 0)

    def settle(self) -> None:
        """Moves the progress over what was delivered."""
        start = self.offset
        while self.offset in self._done:
            self._done.remove(self.offset)
            self.offset += 1
        if self.offset > start:
            copies, self._copies = self._copies, {}
            self.progress.note(self.offset, copies)

    def advance(self) -> int:
        """Advances over the steps whose copies are on the disk; returns how many steps are not."""
        self.progress.advance()
        return self.progress.waiting

    @property
    def durable_offset(self) -> int:
        """Everything before it was delivered for good, as far as `advance` knows."""
        return self.progress.durable_offset
