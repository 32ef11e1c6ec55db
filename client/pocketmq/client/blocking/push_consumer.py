"""The push consumer for programs without an event loop."""

from __future__ import annotations

from typing import Any

from typing_extensions import Self

from pocketmq.client.blocking.thread import Blocking
from pocketmq.client.consumers import push_consumer
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.listening.dispatch import Listener
from pocketmq.client.message_selector import Expression
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
from pocketmq.protocol.bodies.clients import SUBSCRIBE_ALL
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage


class PushConsumer(Blocking[push_consumer.PushConsumer]):
    """See `pocketmq.client.PushConsumer`; plain listeners run in threads."""

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        listener: Listener | None = None,
        allocate: AllocateStrategy = allocate_averagely,
        **settings: Any,
    ) -> None:
        super().__init__(
            lambda: push_consumer.PushConsumer(
                group, namesrv, listener=listener, allocate=allocate, **settings
            )
        )

    def subscribe(self, topic: str, expression: Expression = SUBSCRIBE_ALL) -> None:
        """Asks for a topic's messages, before or after the start."""
        self._call(self._twin.subscribe, topic, expression)

    def check_subscriptions(self) -> None:
        """Asks the brokers whether they can serve the subscriptions, as `start` does."""
        self._run(self._twin.check_subscriptions())

    def unsubscribe(self, topic: str) -> None:
        """Takes no more messages of a topic."""
        self._call(self._twin.unsubscribe, topic)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that are this member's now, sorted."""
        return self._call(lambda: self._twin.queues)

    @property
    def is_paused(self) -> bool:
        """Whether it was paused."""
        return self._call(lambda: self._twin.is_paused)

    def pause(self) -> None:
        """Takes and hands out nothing until `resume`; the queues stay this member's."""
        self._call(self._twin.pause)

    def resume(self) -> None:
        """Goes on after `pause`."""
        self._call(self._twin.resume)

    @property
    def concurrency(self) -> int:
        """How many batches are handled at the same time; may be changed at any time."""
        return self._call(lambda: self._twin.concurrency)

    @concurrency.setter
    def concurrency(self, concurrency: int) -> None:
        self._call(setattr, self._twin, "concurrency", concurrency)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        try:
            return self._run(self._twin.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def ack(self, message: ReceivedMessage) -> None:
        """A message that the iteration gave was handled."""
        self._call(self._twin.ack, message)

    def retry(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """A message that the iteration gave is to come again later."""
        self._call(self._twin.retry, message, delay_level)
