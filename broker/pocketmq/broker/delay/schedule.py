"""Takes delayed messages, and has each level deliver them (`broker/schedule`)."""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from pocketmq.broker.delay.delivery import LevelDelivery
from pocketmq.broker.delay.levels import DelayLevels
from pocketmq.broker.groups import GroupTable
from pocketmq.broker.real_targets import RealTargets
from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.stored_message import StoredMessage, with_properties
from pocketmq.broker.topics import TopicTable
from pocketmq.protocol import names
from pocketmq.protocol import properties as props

log = logging.getLogger("pocketmq.broker")

_OFFSETS = "delay_offsets"
_encode = msgspec.json.encode


class Diversion(NamedTuple):
    """Where a delayed message waits: the log, its store time there and when it is due (both in
    milliseconds since the epoch), and its properties.
    """

    queue_log: QueueLog
    store_ms: int
    deliver_ms: int
    properties: str


class Schedule:
    """The delayed messages of a broker.

    Each message carries the time at which it is due, so that a change of `messageDelayLevel`
    applies to messages sent from then on. Levels that are no longer configured still deliver what
    waits in them. As each level is a queue, messages sent after a level was shortened may wait for
    those that were sent before.

    Args:
        levels: the delays.
        store: where messages wait.
        topics, groups: of the broker; the topic may be gone when a message is due.
    """

    def __init__(
        self, levels: DelayLevels, store: MessageStore, topics: TopicTable, groups: GroupTable
    ) -> None:
        self._levels, self._store = levels, store
        self._targets = RealTargets(store, topics, groups)
        text = store.metadata.state(_OFFSETS)
        self._saved = {} if text is None else msgspec.json.decode(text, type=dict[int, int])
        self._deliveries: dict[int, LevelDelivery] = {}

    def start(self) -> None:
        """Begins to deliver what waits from earlier runs; later messages see to themselves."""
        for queue_id in self._store.queue_ids(names.SCHEDULE_TOPIC):
            self._delivery(queue_id)

    def _delivery(self, queue_id: int) -> LevelDelivery:
        delivery = self._deliveries.get(queue_id)
        if delivery is None:
            delivery = self._deliveries[queue_id] = LevelDelivery(
                self._store,
                queue_id,
                self._levels.delay_ms(queue_id + 1),
                self._saved.get(queue_id, 0),
                self._target,
            )
            delivery.open()
        return delivery

    # -- taking -------------------------------------------------------------------------------

    def divert(self, level: int, target: QueueLog, properties: str) -> Diversion:
        """Where a message waits before it goes to its target (`HookUtils#handleScheduleMessage`).

        The caller appends it there, with the deliver time in the record and as tags code, and
        calls `wake` when it is stored.

        Args:
            level: from 1; too high ones become the highest.
            target: the log that it is for.
            properties: of the message, encoded.

        Raises:
            StoreError: the level's log cannot be made or opened.
        """
        level = self._levels.clamp(level)
        queue_log = self._store.queue_log(names.SCHEDULE_TOPIC, level - 1)
        delivery = self._delivery(level - 1)
        # The store time first: the delay must not end before store time + level. Only after the
        # clock was set back does the clock count alone, as store times never go back.
        store_ms = self._store.store_time(queue_log)
        deliver_ms = delivery.look_at_clock(queue_log) + self._levels.delay_ms(level)
        changes: dict[str, str | None] = {
            **dict.fromkeys(props.TIMER_PROPERTIES),  # the level wins over them
            props.DELAY: str(level),
            props.REAL_TOPIC: target.topic,
            props.REAL_QUEUE_ID: str(target.queue_id),
        }
        return Diversion(queue_log, store_ms, deliver_ms, with_properties(properties, changes))

    def wake(self, queue_log: QueueLog) -> None:
        """A message was appended to a level's log."""
        self._delivery(queue_log.queue_id).wake()

    # -- delivering ---------------------------------------------------------------------------

    def _target(self, message: StoredMessage) -> QueueLog | None:
        target = self._targets.find(message.properties.decode("utf-8", "replace"))
        if isinstance(target, str):
            log.warning("a delayed message at %d is dropped: %s", message.physical_offset, target)
            return None
        return target

    def still_needs(self, queue_log: QueueLog) -> bool:
        """Whether the oldest segment of a log holds messages that are not delivered yet."""
        if queue_log.topic != names.SCHEDULE_TOPIC:
            return False
        _, end_offset = queue_log.segment_end(0)
        return self._delivery(queue_log.queue_id).progress.advance() < end_offset

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Of each level that is used, how far it has delivered and where its queue ends."""
        return {
            queue_id + 1: (delivery.progress.advance(), queue_log.max_offset)
            for queue_id, delivery in sorted(self._deliveries.items())
            if (queue_log := self._store.find_log(names.SCHEDULE_TOPIC, queue_id)) is not None
        }

    # -- progress -----------------------------------------------------------------------------

    def save(self) -> None:
        """Writes down how far each level has come."""
        offsets = self._saved | {
            queue_id: delivery.progress.advance() for queue_id, delivery in self._deliveries.items()
        }
        if offsets != self._saved:
            self._store.metadata.set_state(_OFFSETS, _encode(offsets).decode())
            self._saved = offsets

    async def close(self) -> None:
        """Stops delivering, and writes down what was delivered; nothing comes twice then."""
        deliveries = self._deliveries.values()
        for delivery in deliveries:
            delivery.stop()
        await self._store.drain()
        for delivery in deliveries:
            delivery.settle()
        waiting = self._waiting_for_disk()
        while waiting:
            await self._store.checkpoint()
            before, waiting = waiting, self._waiting_for_disk()
            if waiting >= before:
                break  # the disk does not take it: it is delivered again after the next start
        self.save()

    def _waiting_for_disk(self) -> int:
        for delivery in self._deliveries.values():
            delivery.progress.advance()
        return sum(delivery.progress.waiting for delivery in self._deliveries.values())
