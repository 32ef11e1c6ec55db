"""Sends the rows of a writing task on a thread of its own.

Spark hands rows to a task by a blocking iterator, which may be silent for minutes; answers and
timers have to be served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from threading import Condition
from typing import Any, Self

import msgspec

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.producers.producer import Producer
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.spark.marked.commits import OffsetRanges
from pocketmq.spark.options import WriteOptions
from pocketmq.spark.retries import retried
from pocketmq.spark.topics import queues_to_write
from pocketmq.spark.writing.plain_messages import DIVERTED_SIZE_MAX
from pocketmq.spark.writing.sending import BulkSender, Chunk, Sent

Sending = Callable[[], Coroutine[Any, Any, None]]

MESSAGE_OVERHEAD = 512
"""Bytes that a message sent by itself counts for beside its body."""


class SendingThread:
    """Sends chunks while the caller makes more; blocks the caller when too much is under way.

    The first error ends the sending, and is raised from the caller's next call.

    Args:
        options: of the write.
        queues: all of the topic that may be written; none if each row names its topic.
    """

    def __init__(self, options: WriteOptions, queues: Sequence[MessageQueue]) -> None:
        self._options, self._queues = options, queues
        self._senders: dict[str, BulkSender] = {}
        self._plain_rows: Counter[MessageQueue] = Counter()
        self._changed = Condition()
        self._under_way_bytes = 0
        self._error: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread = LoopThread("pocketmq-sender")
        try:
            self._thread.run(self._start())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._thread.run(self._stop())
        self._thread.stop()

    def sender_of(self, topic: str) -> BulkSender:
        """Returns the sender of a topic, only to be asked for its queues: the thread uses it.

        Raises:
            MissingTopicError: it does not exist and is not to be created.
            OperatingError: none of its brokers can be reached.
        """
        sender = self._senders.get(topic)
        if sender is None:
            sender = self._thread.run(self._open(topic))
        return sender

    @property
    def instance(self) -> ClientInstance:
        """The client instance that runs on the thread."""
        return self._instance

    def submit(self, sender: BulkSender, chunk: Chunk) -> None:
        """Sends a chunk soon; waits while more than `inFlightBytes` are under way.

        Raises:
            OperatingError: an earlier chunk could not be sent.
        """
        size = len(chunk.messages.data)
        self._reserve(size)
        self._loop.call_soon_threadsafe(self._begin, partial(sender.send, chunk), size)

    def submit_message(self, message: Message, queue: MessageQueue | None) -> None:
        """Sends a message by itself soon; waits as `submit` does.

        Args:
            message: to be sent.
            queue: where to; None for any.

        Raises:
            OperatingError: an earlier one could not be sent.
        """
        size = len(message.body) + MESSAGE_OVERHEAD
        self._reserve(size)
        self._loop.call_soon_threadsafe(
            self._begin, partial(self._send_message, message, queue), size
        )

    def _reserve(self, size: int) -> None:
        limit = self._options.in_flight_bytes
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._error is not None
                    or self._under_way_bytes == 0
                    or self._under_way_bytes + size <= limit
                )
            )
            self._raise_error()
            self._under_way_bytes += size

    def finish(self) -> Sent:
        """Waits until everything is stored; returns what is.

        Raises:
            OperatingError: a chunk could not be sent.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._under_way_bytes == 0)
            self._raise_error()
        rows, unconfirmed_rows, written = Counter(self._plain_rows), 0, OffsetRanges()
        for sender in self._senders.values():
            sent = sender.sent
            rows.update(sent.rows_by_queue)
            unconfirmed_rows += sent.unconfirmed_rows
            written |= sent.written
        return Sent(rows, unconfirmed_rows, written)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # -- on the thread ------------------------------------------------------------------------

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        options = self._options
        async with AsyncExitStack() as stack:
            self._instance = await stack.enter_async_context(options.client())
            if self._queues:
                await self._add(options.topic, self._queues)
            producer = Producer(
                options.producer_group,
                instance=self._instance,
                send_timeout_ms=options.send_timeout_ms,
                max_message_size=max(options.max_message_size, DIVERTED_SIZE_MAX),
                retry_times_when_send_failed=options.retry_times_when_send_failed,
            )
            self._producer = await stack.enter_async_context(producer)
            self._open_parts = stack.pop_all()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._open_parts.aclose()

    async def _open(self, topic: str) -> BulkSender:
        queues = await queues_to_write(self._instance, topic, self._options.create_topic_queues)
        return await self._add(topic, queues)

    async def _add(self, topic: str, queues: Sequence[MessageQueue]) -> BulkSender:
        options = msgspec.structs.replace(self._options, topic=topic)
        sender = BulkSender(self._instance, options, queues)
        await sender.meet_brokers()
        self._senders[topic] = sender
        return sender

    async def _send_message(self, message: Message, queue: MessageQueue | None) -> None:
        # Any queue will do for a message that is not bound: then the producer itself retries.
        retries = self._options.retry_times_when_send_failed if queue is not None else 0
        send = partial(self._producer.send, message, queue=queue)
        result = await retried(self._instance.clock, retries, send)
        self._plain_rows[result.queue] += 1

    def _begin(self, sending: Sending, size: int) -> None:
        task = self._loop.create_task(self._send(sending, size))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, sending: Sending, size: int) -> None:
        try:
            if self._error is None:
                await sending()
        except Exception as e:  # noqa: BLE001 (the border of the thread: the caller gets it)
            self._fail(e)
        finally:
            with self._changed:
                self._under_way_bytes -= size
                self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()
