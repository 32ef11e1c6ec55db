"""The popped messages of a broker in this process: they have no order among each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pocketmq.client.popping.held_messages import HeldMessages
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage


class PoppedQueue(ProcessQueue):
    """Hands out popped messages; each that is finished is acknowledged (`PopProcessQueue`).

    Args:
        queue: which broker's, see `popper.all_queues`.
        held: keeps the messages from others.
        concurrency: how many batches may be at work at once; 0 for any number.
    """

    __slots__ = ("_held", "_unfinished")

    def __init__(self, queue: MessageQueue, held: HeldMessages, concurrency: int = 0) -> None:
        super().__init__(queue, 0, concurrency)
        self._held = held
        self._unfinished: dict[int, ReceivedMessage] = {}

    @property
    def count(self) -> int:
        """Messages popped and not finished."""
        return len(self._unfinished)

    @property
    def may_commit(self) -> bool:
        """False: the broker moves the offset with the acknowledgements."""
        return False

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int) -> None:
        """Adds popped messages."""
        self._held.add(messages)
        self._waiting.extend(messages)
        self._unfinished.update((id(m), m) for m in messages)
        self.size += sum(m.store_size for m in messages)

    def finish_part(self, messages: Iterable[ReceivedMessage]) -> None:
        """Finishes some messages of a batch; the batch itself goes on."""
        for message in messages:
            if self._unfinished.pop(id(message), None) is not None:
                self.size -= message.store_size
                self._held.handled(message)

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message that came from here is not finished."""
        return id(message) in self._unfinished
