"""The messages of one queue that is consumed in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.runtime.clock import Clock

LOCK_VALID_S = 30.0
"""How long a member counts on a lock after it asked for it (`ProcessQueue#isLockExpired`).

Half of the broker's minute, so that a batch that was begun in time has time to end.
"""


class QueueLock:
    """A member's lock of one queue.

    Attributes:
        renewed_s: when it was last asked for, seconds of the clock.
        is_busy: the listener has a batch of the queue.
    """

    __slots__ = ("_clock", "is_busy", "renewed_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.renewed_s = -math.inf
        self.is_busy = False

    @property
    def is_valid(self) -> bool:
        """Whether a batch may be begun."""
        return self._clock.monotonic() - self.renewed_s <= LOCK_VALID_S


class OrderlyQueue(ProcessQueue):
    """Hands out one batch at a time, and none while suspended or without a valid lock.

    A batch that was handled stays uncommitted until `commit`; `rollback` has all that is
    uncommitted come again (`consumingMsgOrderlyTreeMap`).

    Args:
        queue: which queue this is.
        next_offset: where to pull next.
        lock: the member's hold on it; what is there later for the same queue shares it.
    """

    __slots__ = ("_lock", "_uncommitted", "is_suspended")

    def __init__(self, queue: MessageQueue, next_offset: int, lock: QueueLock) -> None:
        super().__init__(queue, next_offset, 1)
        self._lock = lock
        self._uncommitted: list[ReceivedMessage] = []
        self.is_suspended = False

    @property
    def can_hand_out(self) -> bool:
        """Whether a batch can be taken now."""
        return (
            super().can_hand_out
            and not self.is_suspended
            and not self._lock.is_busy
            and self._lock.is_valid
        )

    @property
    def is_busy(self) -> bool:
        """Whether the listener has a batch, which the queue's next owner must not overtake."""
        return self._lock.is_busy

    @property
    def may_commit(self) -> bool:
        """Whether the queue is surely this member's, so that its offset counts."""
        return self._lock.is_valid

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """Takes the next messages to handle."""
        self._lock.is_busy = True
        return super().take(count_max)

    def finish(self, batch: Sequence[ReceivedMessage]) -> None:
        """Ends the batch that the listener had, and finishes these messages."""
        self._lock.is_busy = False
        super().finish(batch)

    def put_back(self, batch: Sequence[ReceivedMessage]) -> None:
        """Ends the batch that the listener had, and makes these messages the next to be taken."""
        self._lock.is_busy = False
        super().put_back(batch)

    def keep(self, messages: Sequence[ReceivedMessage]) -> None:
        """Keeps messages that were handled, but are not committed."""
        self._uncommitted.extend(messages)

    def commit(self) -> None:
        """Finishes all kept messages."""
        uncommitted, self._uncommitted = self._uncommitted, []
        self.finish_part(uncommitted)

    def rollback(self) -> list[ReceivedMessage]:
        """Returns the kept messages, which are to come again."""
        uncommitted, self._uncommitted = self._uncommitted, []
        return uncommitted
