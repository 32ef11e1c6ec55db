"""The producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pocketmq.client.errors import (
    BatchContentError,
    BatchFailedError,
    ClosedError,
    QueueChoiceError,
)
from pocketmq.client.hooks import COMMON, CommunicationMode, PackMessagesContext, SendHooks, run
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.instance.requests import Announcement
from pocketmq.client.lifecycle import Lifecycle, Startable
from pocketmq.client.producers.recalling import recall_message
from pocketmq.client.producers.selectors import QueueSelector
from pocketmq.client.results import SendResult
from pocketmq.client.sending.hooked_sending import HookedSender
from pocketmq.client.sending.outgoing import Packer
from pocketmq.client.sending.sending import Sender
from pocketmq.client.settings import InstanceSettings, ProducerSettings, take_settings
from pocketmq.client.tracing.trace_dispatcher import PRODUCE, TraceDispatcher
from pocketmq.client.tracing.tracing import ProducerTrace
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import check_group
from pocketmq.runtime.clock import Clock
from pocketmq.transport.permits import Permits

DEFAULT_PRODUCER_GROUP = "pocketmq_producer"

OnSent = Callable[[SendResult | PocketMQError], object]
"""Gets the result of a send, or the error that ended it."""


class Producer(Startable):
    """Sends messages (`client/producer/DefaultMQProducer`)::

        async with Producer("orders", "127.0.0.1:9876") as producer:
            result = await producer.send(Message("Orders", b"hello", tags="new"))

    Args:
        group: the producer group.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        hooks: functions to call at each send.
        instance: a shared instance instead of one of the producer's own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `ProducerSettings` and, without `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        group: str = DEFAULT_PRODUCER_GROUP,
        namesrv: NamesrvList = None,
        *,
        hooks: SendHooks | None = None,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        check_group(group)
        self.group = group
        self._lifecycle = Lifecycle()
        self.settings, rest = take_settings(ProducerSettings, settings, InstanceSettings)
        self._lease = InstanceLease(instance, namesrv, clock, random, rest)
        self._hooks = (hooks or SendHooks()) + COMMON.sending
        self._trace: TraceDispatcher | None = None
        self._async_permits = Permits("async send", self.settings.async_sends_max)
        self._sender: Sender | None = None

    @property
    def instance(self) -> ClientInstance:
        """The instance that the producer owns or shares."""
        return self._lease.instance

    async def start(self) -> None:
        """Makes the producer usable. Idempotent.

        Raises:
            UsageError: the shared instance has a producer of this group already.
        """
        if self._sender is not None:
            return
        await self._lease.acquire()
        instance = self.instance
        instance.groups.add_producer(self.group)
        self._packer = Packer(
            self.group, instance.clock, instance.unique_keys, self.settings, instance.settings
        )
        self._announcement = Announcement(instance.pool, instance.routes, instance.heartbeats)
        self._async_sends: set[asyncio.Task[None]] = set()
        self._sender = self._make_sender(instance)

    def _make_sender(self, instance: ClientInstance) -> Sender:
        hooks = self._hooks
        if self.settings.enable_trace:
            self._trace = TraceDispatcher(instance, self.group, PRODUCE, self.settings.trace_topic)
            hooks += ProducerTrace(self._trace, instance.clock).hooks
        if not hooks:
            return Sender(instance, self.settings)
        return HookedSender(instance, self.settings, hooks, self.group)

    async def close(self) -> None:
        """Waits for sends with callbacks, unregisters the producer and closes it. Idempotent."""
        await self._lifecycle.close(self._close)

    async def _close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is None:
            return
        await asyncio.gather(*self._async_sends, return_exceptions=True)
        if self._trace is not None:
            await self._trace.close()
        self.instance.groups.producers.discard(self.group)
        await self.instance.heartbeats.unregister(producer_group=self.group)
        await self._lease.release()

    # -- sending ------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Sends a message and returns when a broker has stored it.

        Args:
            message: gets a `UNIQ_KEY` if it has none.
            timeout_ms: for all attempts together; by default `send_timeout_ms`.
            queue: where to send; then, as with a selector, there is one attempt.
            selector: chooses the queue, see `pocketmq.client.producers.selectors`.
            arg: for the selector.

        Raises:
            UsageError: the message or the queue cannot be used; nothing was sent.
            SendFailedError, SendTimeoutError: every attempt failed.
            ResponseError: the broker refused the message.
            RouteError, NoNameServerError: there is nowhere to send to.
        """
        sender, settings = self._running(), self.settings
        if timeout_ms is None:
            timeout_ms = settings.send_timeout_ms
        outgoing = self._packer.pack(message)
        if selector is not None or queue is not None:
            queue = await self._choose(sender, message, timeout_ms, queue, selector, arg)
        retries = settings.retry_times_when_send_failed
        return await sender.send(outgoing, timeout_ms, retries, queue)

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
        """Begins to send a message and returns; the result or the error goes to the callback.

        Args:
            message, timeout_ms, queue, selector, arg: as of `send`.
            on_sent: called once, on the loop.

        Raises:
            UsageError: the message cannot be used; the callback is not called.
            TooMuchRequestError: `async_sends_max` sends are under way.
        """
        sender, settings = self._running(), self.settings
        outgoing = self._packer.pack(message)
        outgoing.mode = CommunicationMode.ASYNC
        self._async_permits.acquire()
        timeout = settings.send_timeout_ms if timeout_ms is None else timeout_ms

        async def deliver() -> None:
            outcome: SendResult | PocketMQError
            try:
                chosen = queue
                if selector is not None or queue is not None:
                    chosen = await self._choose(sender, message, timeout, queue, selector, arg)
                retries = settings.retry_times_when_send_async_failed
                outcome = await sender.send(outgoing, timeout, retries, chosen)
            except PocketMQError as e:
                outcome = e
            finally:
                self._async_permits.release()
            on_sent(outcome)

        task = self.instance.tasks.spawn(deliver(), f"send to {message.topic}")
        self._async_sends.add(task)
        task.add_done_callback(self._async_sends.discard)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends a message without waiting for an answer: fast, but it may be lost unnoticed.

        Args:
            message, queue, selector, arg: as of `send`.

        Raises:
            UsageError, RouteError, NoNameServerError, ConnectError, ConnectionClosedError,
            TooMuchRequestError.
        """
        sender, timeout_ms = self._running(), self.settings.send_timeout_ms
        outgoing = self._packer.pack(message)
        outgoing.mode = CommunicationMode.ONEWAY
        if selector is not None or queue is not None:
            queue = await self._choose(sender, message, timeout_ms, queue, selector, arg)
        await sender.send_oneway(outgoing, timeout_ms, queue)

    async def send_batch(
        self,
        messages: Sequence[Message],
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> list[SendResult]:
        """Sends messages of one topic together, in as few requests as the size limit allows.

        Args:
            messages: of one topic, with the same `wait_store_ok`, without delay.
            timeout_ms: for each request.
            queue: where to send; without it each request takes the next queue.
            selector: chooses the queue of each message; they must all have the same.
            arg: for the selector.

        Returns:
            One result for each request, in order; its `count` is the number of messages.

        Raises:
            BatchContentError, UsageError: nothing was sent.
            BatchFailedError: an earlier part was stored, a later one was not.
            SendFailedError, SendTimeoutError, ResponseError, RouteError, NoNameServerError: none
                was stored for sure.
        """
        sender, settings = self._running(), self.settings
        timeout = settings.send_timeout_ms if timeout_ms is None else timeout_ms
        if self._hooks.packing:
            namespace = self.instance.namespace.name
            run(self._hooks.packing, PackMessagesContext(self.group, messages, namespace))
        parts = self._packer.pack_batches(messages)
        if queue is not None or selector is not None:
            queue = await self._choose_for_all(sender, messages, timeout, queue, selector, arg)
        results: list[SendResult] = []
        for part in parts:
            try:
                retries = settings.retry_times_when_send_failed
                result = await sender.send(part, timeout, retries, queue)
            except PocketMQError as e:
                if not results:
                    raise
                unsent = len(messages) - sum(r.count for r in results)
                raise BatchFailedError(results, unsent, e) from e
            results.append(result)
        return results

    async def request(
        self,
        message: Message,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> ReceivedMessage:
        """Sends a request and returns the reply, which a consumer makes with `reply_message`.

        Args:
            message: gets the properties that a reply needs, anew each time.
            timeout_ms: for sending and the reply together; by default `send_timeout_ms`.
            queue, selector, arg: as of `send`.

        Raises:
            RequestTimeoutError: it was sent, the reply did not come in time.
            TooMuchRequestError: too many requests wait for their replies.
            UsageError, SendFailedError, SendTimeoutError, ResponseError, RouteError,
            NoNameServerError: as of `send`; it was not sent for sure.
        """
        sender, clock = self._running(), self.instance.clock
        if timeout_ms is None:
            timeout_ms = self.settings.send_timeout_ms
        deadline = clock.monotonic() + timeout_ms / 1000
        with self.instance.requests.open(message, timeout_ms) as request:
            await sender.route(message.topic, timeout_ms)
            await self._announcement.announce()
            left_ms = max(0.0, (deadline - clock.monotonic()) * 1000)
            await self.send(message, left_ms, queue=queue, selector=selector, arg=arg)
            left_ms = max(0.0, (deadline - clock.monotonic()) * 1000)
            return await request.reply(left_ms, timeout_ms)

    async def recall(self, topic: str, recall_handle: str, timeout_ms: float | None = None) -> str:
        """Recalls a timer message before it is delivered; a delay level cannot be recalled.

        Args:
            topic: that it was sent to.
            recall_handle: of its `SendResult`.
            timeout_ms: by default `send_timeout_ms`.

        Returns:
            The message's unique key.

        Raises:
            UsageError: the handle is none, or the topic takes no recalls; no broker was asked.
            ResponseError: the broker refused it; code 604 when the message is delivered already.
            RouteError, NoNameServerError, ConnectError, ConnectionClosedError, CallTimeoutError.
        """
        sender = self._running()
        timeout = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        wrapped = self.instance.namespace.wrap(topic)
        return await recall_message(
            self.instance, sender, self.group, wrapped, recall_handle, timeout
        )

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Returns the queues that a topic's messages can be sent to (fetchPublishMessageQueues).

        Raises:
            RouteError, NoNameServerError.
        """
        route = await self._running().route(topic, self.settings.send_timeout_ms)
        return route.ring.queues

    async def _choose(
        self,
        sender: Sender,
        message: Message,
        timeout_ms: float,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: Any,
    ) -> MessageQueue:
        if selector is None:
            assert queue is not None
            _check_topic_of(queue, message.topic)
            return queue
        if queue is not None:
            raise QueueChoiceError(message.topic, queue, "a selector is given as well")
        route = await sender.route(message.topic, timeout_ms)
        chosen = selector(route.ring.queues, message, arg)
        if chosen not in route.ring:
            raise QueueChoiceError(
                message.topic, chosen, "the selector must return one of the queues"
            )
        return chosen

    async def _choose_for_all(
        self,
        sender: Sender,
        messages: Sequence[Message],
        timeout_ms: float,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: Any,
    ) -> MessageQueue:
        chosen = await self._choose(sender, messages[0], timeout_ms, queue, selector, arg)
        for number, message in enumerate(messages if selector is not None else ()):
            other = await self._choose(sender, message, timeout_ms, queue, selector, arg)
            if other != chosen:
                raise BatchContentError(
                    f"a batch goes to one queue: the selector chose {chosen} for its first message "
                    f"and {other} for message {number}; make a batch for each queue"
                )
        return chosen

    def _running(self) -> Sender:
        if self._sender is None:
            raise ClosedError(f"producer of group {self.group}")
        return self._sender


def _check_topic_of(queue: MessageQueue, topic: str) -> None:
    if queue.topic != topic:
        raise QueueChoiceError(topic, queue, "it is a queue of another topic")
