"""The messages of one queue in this process: pulled, waiting, at work, finished."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage


class ProcessQueue:
    """Keeps the order of a queue's messages and knows what is finished.

    Messages are taken in offset order and may be finished in any order; `commit_offset` never
    passes one that is not finished, so after a crash nothing is lost
    (`client/impl/consumer/ProcessQueue`).

    Args:
        queue: which queue this is.
        next_offset: where to pull next.
        concurrency: how many batches may be at work at once; 0 for any number.
    """

    __slots__ = (
        "_finished",
        "_offsets",
        "_waiting",
        "at_work",
        "concurrency",
        "dropped",
        "is_ready",
        "last_taken_s",
        "next_offset",
        "queue",
        "size",
    )

    def __init__(self, queue: MessageQueue, next_offset: int, concurrency: int = 0) -> None:
        self.queue, self.next_offset, self.concurrency = queue, next_offset, concurrency
        self.dropped = False
        self.is_ready = False
        """Whether the queue is among those that wait to hand out a batch."""
        self.at_work = 0
        """Batches handed out and not finished."""
        self.size = 0
        """Bytes of the stored records of all messages that are not finished."""
        self.last_taken_s = 0.0
        """When the last batch was handed out, in seconds of the clock; 0 for never."""
        self._waiting: deque[ReceivedMessage] = deque()
        self._offsets: deque[int] = deque()
        self._finished: set[int] = set()

    @property
    def count(self) -> int:
        """Messages pulled and not finished."""
        return len(self._offsets) - len(self._finished)

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first and the last offset here; None if there is no message."""
        offsets = self._offsets
        return (offsets[0], offsets[-1]) if offsets else None

    @property
    def span(self) -> int:
        """How far the first and the last unfinished offset lie apart."""
        offsets = self._offsets
        return offsets[-1] - offsets[0] if offsets else 0

    @property
    def commit_offset(self) -> int:
        """The offset at which the group continues after a restart: the first unfinished one."""
        return self._offsets[0] if self._offsets else self.next_offset

    @property
    def can_hand_out(self) -> bool:
        """Whether a batch can be taken now."""
        return (
            bool(self._waiting)
            and not self.dropped
            and (not self.concurrency or self.at_work < self.concurrency)
        )

    @property
    def is_busy(self) -> bool:
        """Whether the queue's next owner must wait for a batch: only where order is asked for."""
        return False

    @property
    def may_commit(self) -> bool:
        """Whether `commit_offset` may be stored: without a valid lock it may not be."""
        return True

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int) -> None:
        """Adds pulled messages, but for those that were here before.

        Args:
            messages: in offset order.
            next_offset: where to pull next, after messages that did not match as well.
        """
        if self._offsets:
            last = self._offsets[-1]
            messages = [m for m in messages if m.queue_offset > last]
        self._waiting.extend(messages)
        self._offsets.extend([m.queue_offset for m in messages])
        self.size += sum([m.store_size for m in messages])
        self.next_offset = next_offset

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """Takes the next messages to handle, in offset order; they are at work from now on."""
        waiting = self._waiting
        if count_max == 1:
            batch = [waiting.popleft()]
        else:
            batch = [waiting.popleft() for _ in range(min(count_max, len(waiting)))]
        self.at_work += 1
        return batch

    def finish(self, batch: Sequence[ReceivedMessage]) -> None:
        """Finishes the messages of a handled batch."""
        self.at_work -= 1
        self.finish_part(batch)

    def finish_part(self, messages: Iterable[ReceivedMessage]) -> None:
        """Finishes some messages of a batch; the batch itself goes on.

        What is finished already is left out: a batch that took too long was sent back before.
        """
        offsets, finished = self._offsets, self._finished
        for message in messages:
            offset = message.queue_offset
            if not offsets or offset < offsets[0] or offset in finished:
                continue
            self.size -= message.store_size
            if offset > offsets[0]:
                finished.add(offset)
                continue
            offsets.popleft()
            while finished and offsets and offsets[0] in finished:
                finished.discard(offsets.popleft())

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message that came from this queue is not finished."""
        offset, offsets = message.queue_offset, self._offsets
        return bool(offsets) and offset >= offsets[0] and offset not in self._finished

    def put_back(self, batch: Sequence[ReceivedMessage]) -> None:
        """Makes the messages of an unhandled batch the next to be taken."""
        self.at_work -= 1
        self._waiting.extendleft(reversed(batch))
