"""The lite pull consumer for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import Self

from pocketmq.client.blocking.thread import Blocking
from pocketmq.client.consumers import lite_pull_consumer
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.message_selector import Expression
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
from pocketmq.client.rebalance.queue_listeners import QueuesListener, ShareListener
from pocketmq.protocol.bodies.clients import SUBSCRIBE_ALL
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage


class LitePullConsumer(Blocking[lite_pull_consumer.LitePullConsumer]):
    """See `pocketmq.client.LitePullConsumer`; plain listeners run in threads."""

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        allocate: AllocateStrategy = allocate_averagely,
        **settings: Any,
    ) -> None:
        super().__init__(
            lambda: lite_pull_consumer.LitePullConsumer(
                group, namesrv, allocate=allocate, **settings
            )
        )

    def __exit__(self, *exc_info: Any) -> None:
        self._run(self._twin.__aexit__(*exc_info))

    def subscribe(
        self,
        topic: str,
        expression: Expression = SUBSCRIBE_ALL,
        listener: ShareListener | None = None,
    ) -> None:
        """Asks for a topic's messages, before or after the start."""
        self._call(self._twin.subscribe, topic, expression, listener)

    def check_subscriptions(self) -> None:
        """Asks the brokers whether they can serve the subscriptions, as `start` does."""
        self._run(self._twin.check_subscriptions())

    def unsubscribe(self, topic: str) -> None:
        """Takes no more messages of a topic."""
        self._call(self._twin.unsubscribe, topic)

    def assign(
        self, queues: Iterable[MessageQueue], expression: Expression = SUBSCRIBE_ALL
    ) -> None:
        """Says which queues to pull, before or after the start; a later call replaces them."""
        self._call(self._twin.assign, queues, expression)

    def listen_to_topic(self, topic: str, listener: QueuesListener) -> None:
        """Who is told when the queues of a topic change."""
        self._run(self._twin.listen_to_topic(topic, listener))

    def poll(self, timeout_ms: float | None = None) -> list[ReceivedMessage]:
        """The next messages of one queue, `pull_batch_size` at the most, in offset order."""
        return self._run(self._twin.poll(timeout_ms))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        try:
            return self._run(self._twin.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Neither pulls nor gives out what is in some queues until `resume`."""
        self._call(self._twin.pause, queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Goes on with some queues."""
        self._call(self._twin.resume, queues)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores where the group goes on."""
        self._run(self._twin.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Where the group goes on in a queue, as it is stored; None when nothing is."""
        return self._run(self._twin.committed(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Goes on at an offset."""
        self._run(self._twin.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Goes on with the oldest message."""
        self._run(self._twin.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Goes on with the next message that is sent."""
        self._run(self._twin.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Goes on with the first message stored at that time or later, else at the end."""
        self._run(self._twin.seek_to_time(queue, timestamp_ms))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset stored at that time or later."""
        return self._run(self._twin.offset_for_timestamp(queue, timestamp_ms))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted."""
        return self._call(lambda: self._twin.assignment)

    def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be pulled from, sorted by broker and number."""
        return self._run(self._twin.queues(topic))
