"""The choice of queues for copied messages, which keeps their order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from pocketmq.client.producers.selectors import by_hash
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import Message, MessageQueue


class QueuePlan:
    """Chooses a queue of the target topic for each copied message.

    A message that came from a queue goes to the queue of the same broker and number; where there
    is none, to one that all messages of that queue go to. Otherwise its sharding key decides, or
    else the queues take turns. The same messages in the same order go to the same queues.

    Args:
        queues: the writable ones, in order.
        is_strict: refuse a message whose queue does not exist.
        named: queues that only messages may go to which name them.
    """

    def __init__(
        self,
        queues: Sequence[MessageQueue],
        *,
        is_strict: bool = False,
        named: Sequence[MessageQueue] = (),
    ) -> None:
        self._queues, self._known = queues, frozenset(queues) | frozenset(named)
        self._brokers = {queue.broker_name for queue in queues}
        self._is_strict = is_strict
        self._turns = cycle(queues)

    def queue_for(
        self, message: Message, broker: str | None = None, queue_id: int | None = None
    ) -> MessageQueue:
        """Returns the queue for one message.

        Args:
            message: to be sent.
            broker, queue_id: where it was, as far as that is known.

        Raises:
            UsageError: there is no such queue, and the plan is strict.
        """
        if queue_id is not None:
            return self._same_queue(message, broker, queue_id)
        if message.sharding_key:
            return by_hash(self._queues, message)
        return next(self._turns)

    def _same_queue(self, message: Message, broker: str | None, queue_id: int) -> MessageQueue:
        if broker is None and len(self._brokers) == 1:
            (broker,) = self._brokers
        wanted = MessageQueue(message.topic, broker or "", queue_id)
        if wanted in self._known:
            return wanted
        if self._is_strict:
            known = ", ".join(f"{q.broker_name}:{q.queue_id}" for q in sorted(self._known))
            raise UsageError(
                f"topic {message.topic} has no queue {broker or '(no broker given)'}:{queue_id} "
                f"that can be written to; it has {known}"
            )
        return by_hash(self._queues, message, f"{broker}:{queue_id}")
