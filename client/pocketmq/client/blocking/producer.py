"""The producer for programs without an event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pocketmq.client.blocking.thread import Blocking
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.producers import producer
from pocketmq.client.producers.producer import OnSent
from pocketmq.client.producers.selectors import QueueSelector
from pocketmq.client.results import SendResult
from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage


class Producer(Blocking[producer.Producer]):
    """See `pocketmq.client.producers.producer.Producer`."""

    def __init__(
        self,
        group: str = producer.DEFAULT_GROUP,
        namesrv: NamesrvList = None,
        **settings: Any,
    ) -> None:
        super().__init__(lambda: producer.Producer(group, namesrv, **settings))

    def send(
        self,
        message: Message,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Sends a message and returns when a broker has stored it."""
        send = self._twin.send(message, timeout_ms, queue=queue, selector=selector, arg=arg)
        return self._run(send)

    def send_async(
        self,
        message: Message,
        on_sent: OnSent,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Begins to send; the callback runs on the client's thread and must not block."""
        self._call(
            self._twin.send_async,
            message,
            on_sent,
            timeout_ms,
            queue=queue,
            selector=selector,
            arg=arg,
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends a message without asking for an answer."""
        self._run(self._twin.send_oneway(message, queue=queue, selector=selector, arg=arg))

    def send_batch(
        self,
        messages: Sequence[Message],
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> list[SendResult]:
        """Sends messages of one topic together."""
        send = self._twin.send_batch(messages, timeout_ms, queue=queue, selector=selector, arg=arg)
        return self._run(send)

    def request(
        self,
        message: Message,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> ReceivedMessage:
        """Sends a request and returns the reply."""
        request = self._twin.request(message, timeout_ms, queue=queue, selector=selector, arg=arg)
        return self._run(request)

    def recall(self, topic: str, recall_handle: str, timeout_ms: float | None = None) -> str:
        """Calls a timer message back before it is delivered."""
        return self._run(self._twin.recall(topic, recall_handle, timeout_ms))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that a topic's messages can be sent to."""
        return self._run(self._twin.queues(topic))
