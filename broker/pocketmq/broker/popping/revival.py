"""Copies popped messages that nobody has acknowledged in time to their group's retry topic."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage, read_stored
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.popping.in_flight import Popped
from pocketmq.broker.popping.pop_queues import PopQueue, PopQueues
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import check_record
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock, Timer

log = logging.getLogger("pocketmq.broker")

PAGES_PER_TURN_MAX = 8
"""Pages whose due messages one turn of the loop copies: 256 messages at the most."""

SIZE_PER_TURN_MAX = 4 * 1024 * 1024
"""Bytes of messages after which a turn begins no further page."""

RETRY_MS = 1000
"""When it is tried again after the store took no writes."""

LOOK_AGAIN_MS = 60_000
"""When a message is looked at again that is damaged, or whose copy is not stored yet."""


class Revival:
    """Gives messages another attempt when their invisible time is over (`PopReviveService`).

    RocketMQ looks every second and is two seconds late; here a timer of the broker's clock runs
    until the next message is due.

    Args:
        store, appender, topics, groups: of the broker.
        queues: what is in flight.
        clock: says what is due.

    Attributes:
        count: messages that were copied since the start.
    """

    def __init__(
        self,
        store: MessageStore,
        appender: Appender,
        topics: TopicTable,
        groups: GroupTable,
        queues: PopQueues,
        clock: Clock,
    ) -> None:
        self._store, self._append = store, appender.append_message
        self._topics, self._groups, self._queues, self._clock = topics, groups, queues, clock
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_running = self._is_started = False
        self._trouble: str | None = None
        self.count = 0
        queues.armed = self._arm

    def start(self) -> None:
        """Begins to copy what is due."""
        self._is_started = True
        self._arm()

    def close(self) -> None:
        """Copies nothing more."""
        self._is_started = False
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Sets the timer for the next due message, unless it is set for that or an earlier one."""
        next_ms = self._queues.next_due_ms()
        if next_ms is None or not self._is_started or self._is_running:
            return
        if self._timer is not None:
            if self._timer_ms <= next_ms:
                return
            self._cancel()
        self._timer_ms = next_ms
        wait_s = max(0, next_ms - self._clock.now_ms()) / 1000
        wait_s = min(wait_s, self._clock.timer_s_max)
        self._timer = self._clock.call_later(wait_s, self._run)

    def _run(self) -> None:
        self._timer = None
        if not self._is_started:
            return
        self._is_running = True
        try:
            is_more = self._copy_due()
        finally:
            self._is_running = False
        if is_more:
            self._timer_ms = 0
            self._timer = self._clock.call_later(0, self._run)
        else:
            self._arm()

    def _copy_due(self) -> bool:
        """Copies some of what is due; whether there may be more."""
        size = 0
        for _ in range(PAGES_PER_TURN_MAX):
            now_ms = self._clock.now_ms()
            due = self._queues.due(now_ms)
            if due is None:
                return False
            queue, found = due
            try:
                size += self._copy_page(queue, found, now_ms)
                self._recovered()
            except (OSError, StoreError) as e:
                self._held_up(str(e))
                for popped in found:
                    self._queues.put_off(queue, popped, now_ms + RETRY_MS)
                return False
            finally:
                self._queues.rearm(queue, found[0].offset)
            if size >= SIZE_PER_TURN_MAX:
                return True
        return True

    def _copy_page(self, queue: PopQueue, found: list[Popped], now_ms: int) -> int:
        if self._groups.get(queue.group) is None or queue.topic not in self._topics:
            self._queues.acknowledge(queue, [popped.offset for popped in found], None)
            return 0
        if self._store.refusal is not None:
            raise StoreError(self._store.refusal)
        source = self._store.find_log(queue.topic, queue.queue_id)
        begin = 0 if source is None else source.min_offset
        gone = [popped.offset for popped in found if source is None or popped.offset < begin]
        self._queues.acknowledge(queue, gone, None)
        if source is None or len(gone) == len(found):
            return 0
        target = self._target(queue)
        size = 0
        for popped in found:
            if popped.offset < begin:
                continue
            self._queues.put_off(queue, popped, now_ms + LOOK_AGAIN_MS)
            part = source.read(popped.offset, 1, 1)
            if not check_record(part.data, 0, len(part.data)):
                log.error("the popped message at offset %d of %s queue %d cannot be read",
                          popped.offset, queue.topic, queue.queue_id)  # fmt: skip
                continue
            size += len(part.data)
            copy = _again(read_stored(part.data), queue.group, popped)
            copy_offset = target.next_offset
            on_stored = partial(self._stored, queue, popped, target, copy_offset)
            self._append(target, copy, on_stored, WRITTEN)
        return size

    def _target(self, queue: PopQueue) -> QueueLog:
        """The log of the group's retry topic; a retry topic is its own."""
        topic = queue.topic
        if not topic.startswith(names.RETRY_PREFIX):
            topic = names.pop_retry_topic(queue.group, topic)
        if topic not in self._topics:
            self._topics.create_for_group(topic, 1)
        return self._store.queue_log(topic, 0)

    def _stored(
        self,
        queue: PopQueue,
        popped: Popped,
        target: QueueLog,
        copy_offset: int,
        error: OperatingError | None,
    ) -> None:
        if error is None:
            self.count += 1
            self._queues.copied(queue, popped.offset, target.topic, target.queue_id, copy_offset)
        else:
            self._held_up(str(error))
            self._queues.put_off(queue, popped, self._clock.now_ms() + RETRY_MS)

    def try_again(self) -> None:
        """Copies at once what the store held up."""
        if self._trouble is not None:
            asyncio.get_running_loop().call_soon(self._run)

    def _recovered(self) -> None:
        if self._trouble is not None:
            log.info("popped messages can be copied to retry topics again")
            self._trouble = None

    def _held_up(self, reason: str) -> None:
        if self._trouble is None:
            log.warning(
                "popped messages cannot be copied to retry topics, it is tried again every %d ms: "
                "%s",
                RETRY_MS,
                reason,
            )
        self._trouble = reason


def _again(message: StoredMessage, group: str, popped: Popped) -> StoredMessage:
    """The message as it is delivered once more, with what RocketMQ notes on it."""
    text = message.text
    changes: dict[str, str | None] = {props.ORIGIN_GROUP: group}
    if props.value_of(text, props.FIRST_POP_TIME) is None:
        changes[props.FIRST_POP_TIME] = str(popped.pop_ms)
    again = message.with_changes(changes)
    if len(again.properties) > props.PROPERTIES_SIZE_MAX:
        again = message
    return again._replace(reconsume_times=message.reconsume_times + (not popped.is_suspended))
