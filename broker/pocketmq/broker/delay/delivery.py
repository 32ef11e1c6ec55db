"""Delivers waiting messages to their topics when they are due."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage, stored_in
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog
from pocketmq.broker.store.log.readable_log import Slice
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import Clock, Timer

log = logging.getLogger("pocketmq.broker")

DELIVERIES_PER_TURN_MAX = 64
"""Messages that one turn of the loop delivers of one queue, so that sends and pulls get theirs."""

DELIVERY_SIZE_PER_TURN_MAX = 4 * 1024 * 1024
"""Bytes of them."""

RETRY_MS = 1000
"""When it is tried again after the store took no writes."""

LOOK_AGAIN_MS_MAX = 60_000
"""When a damaged message is looked at again, which others do not wait for."""

FindTarget = Callable[[StoredMessage], "QueueLog | None"]


class DeliveryState(Enum):
    """What a delivery does at the moment."""

    IDLE = auto()
    """No message waits; `wake` goes on."""
    ARMED = auto()
    """The timer runs until the next message is due, or until the next attempt."""
    DELIVERING = auto()
    """A batch is scheduled, or its copies are not stored yet."""
    STOPPED = auto()
    """No more batches are delivered; a delivery is never started again."""


class Delivery(ABC):
    """Turns in which what is due of one queue is re-appended; it costs nothing while nothing waits.

    Each message is delivered at least once and never early: it counts as delivered when the copy is
    stored. While a copy cannot be stored, its queue waits and tries again.

    Args:
        store, appender: where messages wait and go.
        topic, queue_id: where they wait.
        name: what is delivered, for the broker's log.
        find_target: where a message goes; None to drop it. May raise StoreError: not now.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        appender: Appender,
        topic: str,
        queue_id: int,
        name: str,
        find_target: FindTarget,
    ) -> None:
        self._store, self._clock = store, clock
        self._append = appender.append_message
        self._topic, self._queue_id, self._name = topic, queue_id, name
        self._find_target = find_target
        self._timer: Timer | None = None
        self._state = DeliveryState.IDLE
        self._pending: set[int] = set()
        self._done: set[int] = set()
        self._copies: dict[QueueLog, int] = {}
        self._failure: str | None = None
        self._damaged: int | None = None
        self._trouble: str | None = None

    @abstractmethod
    def _deliver_due(self) -> int | None:
        """Appends copies of what is due.

        Returns:
            Milliseconds until the next is due, 0 if one may be already, None if nothing waits.

        Raises:
            OSError, StoreError: not now.
        """

    @abstractmethod
    def settle(self) -> None:
        """Moves the progress over the messages that were delivered (`_done`, with `_copies`)."""

    @abstractmethod
    def advance(self) -> int:
        """Advances over the steps whose copies are on the disk; returns how many steps are not."""

    @property
    @abstractmethod
    def durable_offset(self) -> int:
        """Everything before it was delivered for good, as far as `advance` knows."""

    def wake(self) -> None:
        """Schedules a batch after an append, unless a timer is armed or a batch is under way."""
        if self._state is DeliveryState.IDLE:
            self._state = DeliveryState.DELIVERING
            asyncio.get_running_loop().call_soon(self._deliver_batch)

    def try_again(self) -> None:
        """Delivers at once messages that the store held up, instead of when the next try is due."""
        if self._trouble is not None:
            self._cancel_timer()
            self.wake()

    def stop(self) -> None:
        """Stops delivering; copies that are appended already may still be stored."""
        self._cancel_timer()
        self._state = DeliveryState.STOPPED

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            assert self._state is DeliveryState.ARMED
            self._timer.cancel()
            self._timer = None
            self._state = DeliveryState.IDLE

    def _queue_log(self) -> QueueLog | None:
        return self._store.find_log(self._topic, self._queue_id)

    # -- batches ------------------------------------------------------------------------------

    def _deliver_batch(self) -> None:
        """Delivers what is due, or arms the timer for what is due next."""
        self._timer = None
        if self._state is DeliveryState.STOPPED:
            return
        self._state = DeliveryState.DELIVERING
        try:
            wait_ms = self._deliver_due()
        except (OSError, StoreError) as e:
            wait_ms = self._held_up(str(e))
        if self._pending:
            return  # `_copy_stored` goes on when they are stored
        if wait_ms is None:
            self._state = DeliveryState.IDLE
        elif wait_ms:
            self._arm(wait_ms)
        else:
            self._settle_batch()

    def _arm(self, wait_ms: int) -> None:
        assert self._timer is None
        wait_s = min(wait_ms / 1000, self._clock.timer_s_max)
        self._timer = self._clock.call_later(wait_s, self._deliver_batch)
        self._state = DeliveryState.ARMED

    def _append_copies(self, first_offset: int, part: Slice) -> None:
        offset = first_offset
        for message in stored_in(part, first_offset):
            if offset not in self._done:  # stored in an earlier attempt, one before it was not
                try:
                    self._append_copy(offset, message)
                except (OSError, StoreError) as e:
                    self._failure = str(e)
                    return  # those behind it must not overtake it
            offset += 1
        if offset < part.next_offset:
            self._damaged = offset
            self._failure = f"the waiting message at offset {offset} is damaged on the disk"

    def _append_copy(self, offset: int, message: StoredMessage) -> None:
        target = self._find_target(message)
        if target is None:
            self._drop(offset, message)
            return
        self._append(target, message, partial(self._copy_stored, offset, target), WRITTEN)
        self._pending.add(offset)

    def _drop(self, offset: int, message: StoredMessage) -> None:
        """Is done with a message that nobody is to get."""
        self._done.add(offset)

    def _copy_stored(self, offset: int, target: QueueLog, error: OperatingError | None) -> None:
        self._pending.discard(offset)
        if error is None:
            self._done.add(offset)
            self._copies[target] = target.written_position
        else:
            self._failure = str(error)
        if not self._pending and self._state is not DeliveryState.STOPPED:
            # Later: other logs of this commit are not written yet.
            asyncio.get_running_loop().call_soon(self._settle_batch)

    def _settle_batch(self) -> None:
        """Ends a batch whose appends are answered; goes on at once, after a failure later."""
        self.settle()
        failure, self._failure = self._failure, None
        if self._state is DeliveryState.STOPPED:
            return
        if failure is not None:
            self._arm(self._held_up(failure))
            return
        self._recovered()
        self._state = DeliveryState.IDLE
        self.wake()

    def _recovered(self) -> None:
        if self._trouble is not None:
            log.info("%s can be delivered again", self._name)
            self._trouble = None

    def _held_up(self, reason: str) -> int:
        if self._trouble is None:
            log.warning(
                "%s cannot be delivered, it is tried again every %d ms: %s",
                self._name,
                RETRY_MS,
                reason,
            )
        self._trouble = reason
        return RETRY_MS
