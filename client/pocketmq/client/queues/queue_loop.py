"""The pull loop of one queue."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from pocketmq.client.log_fields import log_fields
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.queues.pulling import Puller
from pocketmq.client.results import PullResult, PullStatus
from pocketmq.client.settings import MemberSettings
from pocketmq.protocol.bodies.clients import BROADCASTING, Subscription
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, ResponseError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.rates import RateWindow

log = logging.getLogger("pocketmq.client")

FLOW_CONTROL_PAUSE_MS = 20
"""Pause after a broker said that it pulls too much (code 215)."""

REFUSED_PAUSE_MS = 3000
"""Pause after a broker said that the user may not pull (code 16); as RocketMQ's clients."""


class QueueLoop:
    """Pulls one queue for as long as it belongs to this member.

    Args:
        queue: which queue.
        offset: where to begin.
        subscription: which messages are wanted.
        puller: asks the brokers.
        settings: limits and pauses.
        clock: for the pauses.
        offer: called when the queue has something to hand out.
        process_queue: makes the process queue, from a queue and an offset.
        on_moved: called when `move` continues at another offset.
        is_retry: it is of the group's retry topic: the listener sees the topics that the messages
            were first sent to (`DefaultMQPushConsumerImpl#resetRetryAndNamespace`).

    Attributes:
        refusal: why the broker does not let the user pull; None while it does.
        last_pull_s: when the last pull began, in seconds of the clock; 0 for never.
        pulled: messages that pulls brought in the last minute, and how long those took in seconds.
    """

    def __init__(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: Subscription,
        puller: Puller,
        settings: MemberSettings,
        clock: Clock,
        offer: Callable[[ProcessQueue], object],
        process_queue: Callable[[MessageQueue, int], ProcessQueue] = ProcessQueue,
        *,
        on_moved: Callable[[MessageQueue], object] = lambda _: None,
        is_retry: bool = False,
    ) -> None:
        self._is_retry = is_retry
        self._is_paused = False
        self._commits = settings.message_model != BROADCASTING
        self.subscription = subscription
        self._puller, self._settings, self._clock, self._offer = puller, settings, clock, offer
        self._process_queue, self._on_moved = process_queue, on_moved
        self._count_max = settings.pull_threshold_for_queue
        self._size_max = settings.pull_threshold_size_for_queue
        self._span_max = math.inf if settings.is_ordered else settings.consume_concurrently_max_span
        self._room: asyncio.Future[None] | None = None
        self._is_failing = False
        self.refusal: NoPermissionError | None = None
        self.last_pull_s = 0.0
        self.pulled = RateWindow(clock.monotonic())
        self.messages = process_queue(queue, offset)

    async def run(self) -> None:
        """Pulls until it is cancelled."""
        settings = self._settings
        while True:
            await self._wait_for_room()
            messages = self.messages
            self.last_pull_s = begun_s = self._clock.monotonic()
            try:
                result = await self._puller.pull(
                    messages.queue,
                    messages.next_offset,
                    self.subscription,
                    max_messages=settings.pull_batch_size,
                    hold_ms=settings.pull_hold_ms,
                    commit_offset=self._commit_offset,
                )
            except PocketMQError as e:
                await self._clock.sleep(self._pause_after(e))
                continue
            self._is_failing = False
            self.refusal = None
            if result.messages:
                now_s = self._clock.monotonic()
                self.pulled.add(now_s, len(result.messages), now_s - begun_s)
            self._take(result)
            if settings.pull_interval_ms:
                await self._clock.sleep(settings.pull_interval_ms / 1000)

    @property
    def _commit_offset(self) -> int | None:
        messages = self.messages
        return messages.commit_offset if self._commits and messages.may_commit else None

    def _take(self, result: PullResult) -> None:
        messages = self.messages
        if result.status is PullStatus.OFFSET_ILLEGAL:
            self._go_where_told(result)
        else:
            if self._is_retry:
                for message in result.messages:
                    message.topic = message.properties.get(props.RETRY_TOPIC, message.topic)
            messages.put(result.messages, result.next_offset)
            self._offer(messages)

    def _go_where_told(self, result: PullResult) -> None:
        old = self.messages
        about = log_fields(queue=old.queue)
        if result.min_offset <= old.next_offset <= result.max_offset:
            log.info(
                "%s: the group was put to offset %d", old.queue, result.next_offset, extra=about
            )
        else:
            log.warning(
                "%s: offset %d is outside of %d to %d, going on at %d",
                old.queue,
                old.next_offset,
                result.min_offset,
                result.max_offset,
                result.next_offset,
                extra=about,
            )
        self.move(result.next_offset)

    def move(self, offset: int) -> None:
        """Continues at another offset.

        What is still at work is of the old offsets; its end does not count any more. A pull that is
        under way must have been cancelled.
        """
        self.messages.dropped = True
        self._on_moved(self.messages.queue)
        self.messages = self._process_queue(self.messages.queue, offset)

    def _pause_after(self, error: PocketMQError) -> float:
        if isinstance(error, ResponseError) and error.code == ResponseCode.FLOW_CONTROL:
            return FLOW_CONTROL_PAUSE_MS / 1000
        is_refused = isinstance(error, NoPermissionError)
        level = logging.ERROR if is_refused and self.refusal is None else logging.WARNING
        if self._is_failing and level is not logging.ERROR:
            level = logging.DEBUG  # a broker that is down would fill the log
        self._is_failing = True
        self.refusal = error if isinstance(error, NoPermissionError) else None
        queue = self.messages.queue
        about = log_fields(queue=queue)
        log.log(level, "pulling %s fails, it is tried again: %s", queue, error, extra=about)
        pause_ms = self._settings.pull_retry_ms
        return (max(pause_ms, REFUSED_PAUSE_MS) if is_refused else pause_ms) / 1000

    # -- flow control -------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether more may be pulled (`DefaultMQPushConsumerImpl#pullMessage`)."""
        messages = self.messages
        return (
            not self._is_paused
            and messages.count < self._count_max
            and messages.size < self._size_max
            and messages.span <= self._span_max
        )

    def limit(self, count_max: int, size_max: int) -> None:
        """Sets how many messages, and how many bytes, may wait in this process."""
        self._count_max, self._size_max = count_max, size_max
        self._look_for_room()

    async def _wait_for_room(self) -> None:
        while not self.has_room:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def finished(self, messages: ProcessQueue) -> None:
        """Pulls further if a finished batch has made room."""
        if messages is self.messages:
            if self._room is not None:
                self._look_for_room()
        else:
            self._offer(self.messages)  # in order, they had to wait for the older batch

    def pause(self) -> None:
        """Begins no further pull. Idempotent."""
        self._is_paused = True

    def resume(self) -> None:
        """Begins pulls again. Idempotent."""
        self._is_paused = False
        self._look_for_room()

    def _look_for_room(self) -> None:
        room = self._room
        if room is not None and self.has_room:
            self._room = None
            if not room.done():
                room.set_result(None)
