"""The client for programs without an event loop: the same names, without ``await``.

::

    from pocketmq.client.blocking import Producer

    with Producer("orders", "127.0.0.1:9876") as producer:
        producer.send(Message("Orders", b"hello"))

Each object runs its asynchronous twin on the loop of one background thread that they all share. It
may be used by many threads at once. Listeners of a push consumer and callbacks of `send_async` run
in other threads than the caller's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

import uvloop
from typing_extensions import Self

from pocketmq.client import admin, producer, pull_consumer, push_consumer
from pocketmq.client.admin_results import BrokerRow, QueueLag, QueueStats
from pocketmq.client.dispatch import Listener
from pocketmq.client.instance import NamesrvList
from pocketmq.client.producer import OnSent
from pocketmq.client.pulling import PULL_MESSAGES_DEFAULT
from pocketmq.client.rebalance import AllocateStrategy, allocate_averagely
from pocketmq.client.results import PullResult, SendResult
from pocketmq.client.selectors import QueueSelector
from pocketmq.protocol.bodies.clients import (
    SUBSCRIBE_ALL,
    ConsumerConnection,
    GroupConfig,
    ProducerConnection,
)
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.message import Message, MessageQueue, ReceivedMessage

T = TypeVar("T")


class LoopThread:
    """A thread that runs an event loop; it ends with the process."""

    _lock = threading.Lock()
    _shared: LoopThread | None = None

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pocketmq-client", daemon=True
        )
        self._thread.start()

    @classmethod
    def shared(cls) -> LoopThread:
        """The one thread of this process; made anew in a forked child, which has no threads."""
        with cls._lock:
            if cls._shared is None or not cls._shared._thread.is_alive():
                cls._shared = LoopThread()
            return cls._shared

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and waits for its result.

        Raises:
            UsageError: the caller is this thread itself, as in a callback of `send_async`.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise UsageError(
                "a callback on the client's own thread cannot wait for the client: use another "
                "thread, or pocketmq.client with await"
            )
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupted caller does not leave the work behind.
            future.cancel()
            raise


class Twin(Protocol):
    """The asynchronous side of a blocking object."""

    async def start(self) -> None:
        """Makes it usable."""

    async def close(self) -> None:
        """Closes it."""


TwinT = TypeVar("TwinT", bound=Twin)


class Blocking(Generic[TwinT]):
    """A blocking object; use it in a ``with`` block, or call `start` and `close`.

    Args:
        make: makes its asynchronous twin, on the loop.
    """

    def __init__(self, make: Callable[[], TwinT]) -> None:
        self._thread = LoopThread.shared()
        self._twin = self._call(make)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Makes the object usable. Idempotent."""
        self._run(self._twin.start())

    def close(self) -> None:
        """Finishes what is under way and closes. Idempotent."""
        self._run(self._twin.close())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        async def call() -> T:
            return function(*args, **kwargs)

        return self._run(call())


class Producer(Blocking[producer.Producer]):
    """See `pocketmq.client.producer.Producer`."""

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
    ) -> list[SendResult]:
        """Sends messages of one topic together."""
        return self._run(self._twin.send_batch(messages, timeout_ms, queue=queue))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that a topic's messages can be sent to."""
        return self._run(self._twin.queues(topic))


class PullConsumer(Blocking[pull_consumer.PullConsumer]):
    """See `pocketmq.client.pull_consumer.PullConsumer`."""

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

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: str = SUBSCRIBE_ALL,
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


class PushConsumer(Blocking[push_consumer.PushConsumer]):
    """See `pocketmq.client.push_consumer.PushConsumer`; plain listeners run in threads."""

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

    def subscribe(self, topic: str, expression: str = SUBSCRIBE_ALL) -> None:
        """Asks for a topic's messages, before or after the start."""
        self._call(self._twin.subscribe, topic, expression)

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


class Admin(Blocking[admin.Admin]):
    """See `pocketmq.client.admin.Admin`."""

    def __init__(self, namesrv: NamesrvList = None, **settings: Any) -> None:
        super().__init__(lambda: admin.Admin(namesrv, **settings))

    def create_topic(
        self,
        topic: str,
        queues: int = admin.QUEUES_DEFAULT,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = PERM_READ | PERM_WRITE,
        order: bool = False,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a topic, or sets all its settings anew."""
        create = self._twin.create_topic(
            topic,
            queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            order=order,
            attributes=attributes,
            cluster=cluster,
            broker_addr=broker_addr,
        )
        return self._run(create)

    def update_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes what is given of a topic's settings."""
        update = self._twin.update_topic(
            topic,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            order=order,
            attributes=attributes,
            cluster=cluster,
            broker_addr=broker_addr,
        )
        return self._run(update)

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Deletes a topic with its messages and offsets."""
        self._run(self._twin.delete_topic(topic, cluster=cluster))

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of a cluster's, sorted."""
        return self._run(self._twin.topics(cluster=cluster))

    def topic_route(self, topic: str) -> TopicRoute:
        """Where a topic's queues are."""
        return self._run(self._twin.topic_route(topic))

    def topic_config(self, topic: str, broker_addr: str) -> TopicConfig:
        """A topic's settings on one broker."""
        return self._run(self._twin.topic_config(topic, broker_addr))

    def topic_stats(self, topic: str) -> list[QueueStats]:
        """What each queue of a topic holds."""
        return self._run(self._twin.topic_stats(topic))

    def cluster_info(self) -> ClusterInfo:
        """All clusters and their brokers."""
        return self._run(self._twin.cluster_info())

    def brokers(self) -> list[BrokerRow]:
        """All brokers, sorted by cluster, name and id."""
        return self._run(self._twin.brokers())

    def broker_runtime(self, broker_addr: str) -> dict[str, str]:
        """A broker's figures."""
        return self._run(self._twin.broker_runtime(broker_addr))

    def broker_config(self, broker_addr: str) -> dict[str, str]:
        """A broker's settings."""
        return self._run(self._twin.broker_config(broker_addr))

    def wipe_write_perm(self, broker_name: str) -> int:
        """Takes a broker out of all routes for writing."""
        return self._run(self._twin.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> int:
        """Undoes `wipe_write_perm`."""
        return self._run(self._twin.add_write_perm(broker_name))

    def groups(self, *, cluster: str | None = None) -> list[str]:
        """The names of all subscription groups, sorted."""
        return self._run(self._twin.groups(cluster=cluster))

    def group_config(self, group: str, broker_addr: str) -> GroupConfig:
        """A group's settings on one broker."""
        return self._run(self._twin.group_config(group, broker_addr))

    def update_group(
        self, config: GroupConfig, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> list[str]:
        """Creates a group, or sets all its settings anew."""
        return self._run(self._twin.update_group(config, cluster=cluster, broker_addr=broker_addr))

    def delete_group(
        self,
        group: str,
        *,
        clean_offset: bool = False,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> None:
        """Deletes a group and, with `clean_offset`, where it stood."""
        delete = self._twin.delete_group(
            group, clean_offset=clean_offset, cluster=cluster, broker_addr=broker_addr
        )
        self._run(delete)

    def consume_stats(self, group: str, topic: str | None = None) -> list[QueueLag]:
        """Where a group stands in each queue."""
        return self._run(self._twin.consume_stats(group, topic))

    def consumer_connections(self, group: str, broker_addr: str) -> ConsumerConnection:
        """Who consumes as a group, and what."""
        return self._run(self._twin.consumer_connections(group, broker_addr))

    def producer_connections(self, group: str, broker_addr: str) -> ProducerConnection:
        """Who produces as a group."""
        return self._run(self._twin.producer_connections(group, broker_addr))

    def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Stores where a group that does not run continues."""
        self._run(self._twin.commit_offset(group, queue, offset))

    def view_message(self, offset_msg_id: str) -> ReceivedMessage:
        """A message by the address that its id carries."""
        return self._run(self._twin.view_message(offset_msg_id))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset of a queue stored at that time or later."""
        return self._run(self._twin.search_offset(queue, timestamp_ms))

    def kv_put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key of a namespace on all name servers."""
        self._run(self._twin.kv_put(namespace, key, value))

    def kv_get(self, namespace: str, key: str) -> str | None:
        """A key's value; None when it is not set."""
        return self._run(self._twin.kv_get(namespace, key))

    def kv_delete(self, namespace: str, key: str) -> None:
        """Removes a key of a namespace on all name servers."""
        self._run(self._twin.kv_delete(namespace, key))

    def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace."""
        return self._run(self._twin.kv_list(namespace))
