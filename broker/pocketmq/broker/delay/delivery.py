"""Brings the messages of one delay level to their topics when they are due."""

from __future__ import annotations

import asyncio
import logging
import math
import struct
from collections.abc import Callable
from functools import partial

from pocketmq.broker.delay.progress import Progress
from pocketmq.broker.store.errors import StoreError
from pocketmq.broker.store.queue_log import QueueLog, Slice, Waiter
from pocketmq.broker.store.segment import ENTRY
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.store.tags import encoded_tags_code
from pocketmq.broker.stored_message import StoredMessage, read_stored
from pocketmq.protocol import names
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.records import check_record
from pocketmq.transport.clock import Timer

log = logging.getLogger("pocketmq.broker")

DELIVERIES_PER_TURN_MAX = 64
"""Messages that one turn of the loop delivers of one level, so that sends and pulls get theirs."""

DELIVERY_SIZE_PER_TURN_MAX = 4 * 1024 * 1024
"""Bytes of them."""

RETRY_MS = 1000
"""When it is tried again after the store took no writes."""

LOOK_AGAIN_MS_MAX = 60_000
"""The longest timer: so soon it is noticed that the wall clock was set or the machine slept."""

FindTarget = Callable[[StoredMessage], "QueueLog | None"]


class LevelDelivery:
    """One queue of the schedule topic, in order; it costs nothing while nothing waits.

    Each message is delivered at least once and never early: the progress moves on when the copy is
    stored. While a copy cannot be stored, its level waits and tries again.

    **The clock.** A message is due when the wall clock shows the time that it carries. If the clock
    is set back, what already waits would wait longer by that step; it is delivered, too, when a
    whole delay has passed since the step was noticed, which cannot be early.

    Args:
        store: where messages wait and go.
        queue_id: the level less one.
        delay_ms: of the level.
        offset: of the first message that is not known to be delivered.
        find_target: where a message goes; None to drop it. May raise StoreError: not now.

    Attributes:
        offset: everything before it was delivered.
        progress: the same as far as it is on the disk.
    """

    def __init__(
        self,
        store: MessageStore,
        queue_id: int,
        delay_ms: int,
        offset: int,
        find_target: FindTarget,
    ) -> None:
        self._store, self._clock = store, store.clock
        self._queue_id, self._delay_ms = queue_id, delay_ms
        self._find_target = find_target
        self.offset = offset
        self.progress = Progress(offset)
        self._timer: Timer | None = None
        self._is_turning = self._is_stopped = False
        self._pending: set[int] = set()
        self._done: set[int] = set()
        self._copies: dict[QueueLog, int] = {}
        self._failure: str | None = None
        self._trouble: str | None = None
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
                "delay level %d goes on at offset %d instead of %d: its queue holds %d to %d",
                self._queue_id + 1, within, self.offset, queue_log.min_offset,
                queue_log.end_offset,
            )  # fmt: skip
            self.offset = within
            self.progress = Progress(within)
        self._seen_ms = queue_log.last_timestamp
        self.wake()

    def wake(self) -> None:
        """Something was appended: sees to it if nothing else was waited for."""
        if self._timer is None and not self._is_turning and not self._is_stopped:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        """Delivers no more; what is on its way may still be stored."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look_at_clock(self, queue_log: QueueLog) -> int:
        """The time, having noticed whether the clock was set back since the last look."""
        now = self._clock.now_ms()
        if now < self._seen_ms:
            self._set_back_end = queue_log.next_offset
            self._set_back_at_s = self._clock.monotonic()
        self._seen_ms = now
        return now

    def _queue_log(self) -> QueueLog | None:
        return self._store.find_log(names.SCHEDULE_TOPIC, self._queue_id)

    # -- turns --------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Delivers what is due, or arms the timer for what is due next."""
        self._timer = None
        self._is_turning = not self._is_stopped
        if self._is_stopped:
            return
        try:
            wait_ms = self._deliver_due()
        except (OSError, StoreError) as e:
            wait_ms = self._held_up(str(e))
        if self._pending:
            return  # `_told` goes on when they are stored
        self._is_turning = False
        if wait_ms == 0:
            self._settle_turn()
        elif wait_ms is not None:
            self._arm(wait_ms)

    def _arm(self, wait_ms: int) -> None:
        wait_ms = min(wait_ms, LOOK_AGAIN_MS_MAX)
        self._timer = self._clock.call_later(wait_ms / 1000, self._turn)

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
            self._append_copies(queue_log.read(self.offset, count, DELIVERY_SIZE_PER_TURN_MAX))
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
            whole_ms = max(self._delay_ms, first_ms - queue_log.timestamp_at(self.offset))
            passed_ms = (self._clock.monotonic() - self._set_back_at_s) * 1000
            wait_ms = min(wait_ms, math.ceil(whole_ms - passed_ms))
        return (0, wait_ms) if wait_ms > 0 else (1, 0)

    def _append_copies(self, part: Slice) -> None:
        position = 0
        for offset in range(self.offset, part.next_offset):
            if not check_record(part.data, position, len(part.data)):
                self._failure = f"the waiting message at offset {offset} is damaged on the disk"
                return
            message = read_stored(part.data, position)
            position += message.size
            if offset in self._done:
                continue  # stored in an earlier attempt, while one before it was not
            try:
                target = self._find_target(message)
                if target is None:
                    self._done.add(offset)
                    continue
                record = message.record_for(target, self._store.store_time(target))
            except (OSError, StoreError, struct.error) as e:
                self._failure = str(e)
                return  # those behind it must not overtake it
            self._pending.add(offset)
            waiter = Waiter(partial(self._told, offset, target), False)
            target.append(record, encoded_tags_code(message.properties), waiter)
            self._store.touch(target)

    def _told(self, offset: int, target: QueueLog, error: OperatingError | None) -> None:
        self._pending.discard(offset)
        if error is None:
            self._done.add(offset)
            self._copies[target] = target.end_position
        else:
            self._failure = str(error)
        if not self._pending and not self._is_stopped:
            # Later: other logs of this commit are not written yet.
            asyncio.get_running_loop().call_soon(self._settle_turn)

    def _settle_turn(self) -> None:
        """All copies of a turn were stored or not: goes on, at once or a little later."""
        self._is_turning = False
        self.settle()
        failure, self._failure = self._failure, None
        if self._is_stopped:
            return
        if failure is not None:
            self._arm(self._held_up(failure))
            return
        if self._trouble is not None:
            log.info("delay level %d delivers again", self._queue_id + 1)
            self._trouble = None
        self.wake()

    def settle(self) -> None:
        """Moves the progress over what was delivered."""
        start = self.offset
        while self.offset in self._done:
            self._done.remove(self.offset)
            self.offset += 1
        if self.offset > start:
            copies, self._copies = self._copies, {}
            self.progress.note(self.offset, copies)

    def _held_up(self, reason: str) -> int:
        if self._trouble is None:
            log.warning(
                "delay level %d cannot deliver, it is tried again every %d ms: %s",
                self._queue_id + 1, RETRY_MS, reason,
            )  # fmt: skip
        self._trouble = reason
        return RETRY_MS
