"""The pull consumer for programs without an event loop."""

from __future__ import annotations

from typing import Any

from pocketmq.client.blocking.thread import Blocking
from pocketmq.client.consumers import pull_consumer
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.message_selector import Expression
from pocketmq.client.queues.pulling import PULL_MESSAGES_DEFAULT
from pocketmq.client.rebalance.queue_listeners import ShareListener
from pocketmq.client.results import PullResult
from pocketmq.protocol.bodies.clients import SUBSCRIBE_ALL
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage


class PullConsumer(Blocking[pull_consumer.PullConsumer]):
    """See `pocketmq.client.consumers.pull_consumer.PullConsumer`."""

    def __init__(
        self,
        group: str = pull_consumer.DEFAULT_GROUP,
        namesrv: NamesrvList = None,
        **settings: Any,
    ) -> None:
        super().__init__(lambda: pull_consumer.PullConsumer(group, namesrv, **settings))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be pulled from."""
        return self._run(self._twin.queues(topic))

    def queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that are this member's, when the group shares them, sorted."""
        return self._run(self._twin.queues_in_balance(topic))

    def listen_to_queues(self, topic: str, listener: ShareListener | None) -> None:
        """Who is told when `queues_in_balance` changes."""
        self._run(self._twin.listen_to_queues(topic, listener))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: Expression = SUBSCRIBE_ALL,
        max_bytes: int | None = None,
        hold_ms: int = 0,
    ) -> PullResult:
        """Asks for messages of one queue."""
        pull = self._twin.pull(
            queue,
            offset,
            max_messages,
            expression=expression,
            max_bytes=max_bytes,
            hold_ms=hold_ms,
        )
        return self._run(pull)

    def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: Expression = SUBSCRIBE_ALL,
    ) -> PullResult:
        """`pull` that waits for a message when there is none."""
        pull = self._twin.pull_block_if_not_found(
            queue, offset, max_messages, expression=expression
        )
        return self._run(pull)

    def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Gives a message back that could not be handled: the group gets it again later."""
        self._run(self._twin.send_back(message, delay_level))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that the queue still holds."""
        return self._run(self._twin.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self._run(self._twin.max_offset(queue))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False) -> int:
        """The first offset stored at that time or later; with `upper` the last one before."""
        return self._run(self._twin.search_offset(queue, timestamp_ms, upper=upper))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """When the oldest message was stored; -1 when there is none."""
        return self._run(self._twin.earliest_store_time_ms(queue))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """Where the group continues; None when it has never committed there."""
        return self._run(self._twin.committed_offset(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Stores in the broker where the group continues."""
        self._run(self._twin.commit(queue, offset))
