"""Sends the messages of a stream to a topic and keeps their results, for `produce` and `replay`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from pocketmq.cli.administration.reset_points import queues_named
from pocketmq.cli.output import note
from pocketmq.client import MessageQueue, Producer
from pocketmq.client.copying.ordered_sender import OrderedSender
from pocketmq.client.copying.queue_plan import QueuePlan
from pocketmq.protocol.errors import OperatingError, PocketMQError, UsageError
from pocketmq.protocol.messages.message_json import MessageDocument

FAILURES_NAMED_MAX = 100
"""Failures that are printed one by one; further ones are counted."""


class Destination(msgspec.Struct, kw_only=True):
    """The destination of messages.

    Attributes:
        topic: the topic.
        is_topic_given: the user chose the topic; otherwise the messages do.
        namesrv: the name servers.
        queue: the queue for all messages, as written by the user.
        keep_queue: refuse messages whose queue does not exist.
        keep_ids: keep the ids that messages got from their first sender.
    """

    topic: str
    namesrv: str
    is_topic_given: bool = True
    queue: str | None = None
    keep_queue: bool = False
    keep_ids: bool = False


class Outcome:
    """Counts the stored and failed messages of a stream by their numbers.

    Args:
        source: the name of the stream, such as a file's name.
        keep_going: whether further messages are sent after a failure.
        first: the number of the first message.

    Attributes:
        sent, failed: the messages that were stored, and those that were not.
        next_number: all messages before it are stored or have failed.
    """

    def __init__(self, source: str, *, keep_going: bool, first: int = 1) -> None:
        self._source, self._keep_going = source, keep_going
        self._first: PocketMQError | None = None
        self._under_way: deque[int] = deque()
        self._done: set[int] = set()
        self.sent = self.failed = 0
        self.next_number = first

    def begin(self, number: int) -> None:
        """Notes that a message is about to be sent; numbers rise."""
        self._under_way.append(number)

    def stored(self, numbers: Sequence[int]) -> None:
        """Counts messages as stored."""
        self.sent += len(numbers)
        self._finish(numbers)

    def fail(self, number: int, error: PocketMQError) -> bool:
        """Counts and prints a failed message; returns whether to go on."""
        self.failed += 1
        text = f"{self._source}:{number}: {error}"
        if self._first is None:
            kind = UsageError if isinstance(error, UsageError) else OperatingError
            self._first = kind(text)
        if self._keep_going:
            self._finish([number])
        if self.failed <= FAILURES_NAMED_MAX and (self._keep_going or self.failed > 1):
            note(text)
        elif self.failed == FAILURES_NAMED_MAX + 1:
            note("further failures are only counted")
        return self._keep_going

    def _finish(self, numbers: Sequence[int]) -> None:
        self._done.update(numbers)
        while self._under_way and self._under_way[0] in self._done:
            number = self._under_way.popleft()
            self._done.discard(number)
            self.next_number = number + 1

    def check(self, remedy: str = "") -> None:
        """Raises an error at the end if a message failed.

        Args:
            remedy: the step that helps, for the error.

        Raises:
            UsageError: the stream is wrong, and sending stopped there.
            OperatingError: a message could not be sent.
        """
        if self._first is None:
            return
        if self._keep_going:
            raise OperatingError(f"{self.failed} messages were not sent, {self.sent} were")
        raise type(self._first)(f"{self._first} ({self.sent} messages were sent{remedy})")


class Outflow:
    """Sends messages within ``async with Outflow(destination, outcome)``, stored at its end.

    Args:
        destination: the topic and cluster to send to.
        outcome: counts each message.
    """

    def __init__(self, destination: Destination, outcome: Outcome) -> None:
        self._destination, self._outcome = destination, outcome
        self._producer = Producer("pocketmq_cli", destination.namesrv)

    async def __aenter__(self) -> Self:
        await self._producer.start()
        try:
            queues = await self._queues()
        except BaseException:
            await self._producer.close()
            raise
        self._plan = QueuePlan(queues, is_strict=self._destination.keep_queue)
        self._pinned = queues[0] if self._destination.queue is not None else None
        self._sender: OrderedSender[int] = OrderedSender(
            self._producer, self._outcome.stored, self._outcome.fail
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            if error is None:
                await self._sender.flush()
        finally:
            await self._sender.close()
            await self._producer.close()

    async def _queues(self) -> Sequence[MessageQueue]:
        destination = self._destination
        queues = await self._producer.queues(destination.topic)
        if destination.queue is None:
            return queues
        (chosen,) = queues_named(
            destination.topic, (q.broker_name for q in queues), [destination.queue]
        )
        if chosen not in queues:
            raise UsageError(f"--queue: {chosen} is no queue that can be written to")
        return [chosen]

    async def put(self, number: int, document: MessageDocument) -> bool:
        """Sends a message, in order with those of its queue; False if nothing more is sent."""
        destination = self._destination
        try:
            message = document.message(destination.topic, keep_id=destination.keep_ids)
            queue = self._pinned or self._plan.queue_for(message, document.broker, document.queue)
        except UsageError as e:
            return self.refuse(number, e)
        self._outcome.begin(number)
        return await self._sender.put(message, queue, number)

    def refuse(self, number: int, error: UsageError) -> bool:
        """Counts a line that is no message as failed; False if nothing more is sent."""
        self._outcome.begin(number)
        return self._outcome.fail(number, error)

    async def flush(self) -> None:
        """Returns when every message is stored or has failed."""
        await self._sender.flush()
