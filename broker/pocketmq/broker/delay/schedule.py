"""Redirects delayed messages, and delivers them by level and by timer (`broker/schedule`)."""

from __future__ import annotations

import logging
import random

import msgspec

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.real_targets import RealTargets
from pocketmq.broker.appending.stored_message import StoredMessage, with_properties
from pocketmq.broker.config.delay_levels import DelayLevels
from pocketmq.broker.delay.delivery import Delivery
from pocketmq.broker.delay.level_delivery import LevelDelivery
from pocketmq.broker.delay.levels import delay_level_of
from pocketmq.broker.delay.redirect import Redirect
from pocketmq.broker.delay.timers import Timers, TimerSettings
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.log.queue_log import OnStored, QueueLog
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live

log = logging.getLogger("pocketmq.broker")

_OFFSETS = "delay_offsets"
_encode = msgspec.json.encode


class Schedule:
    """The delayed messages of a broker.

    Each message carries the time at which it is due, so that a change of `messageDelayLevel`
    applies to messages sent from then on. Levels that are no longer configured still deliver what
    waits in them. As each level is a queue, messages sent after a level was shortened may wait for
    those that were sent before.

    Args:
        levels: the delays.
        store, appender: where messages wait and go.
        metadata: keeps the progress of the deliveries.
        targets: find the logs that messages go to.
        timer_settings, rng: see `Timers`.

    Attributes:
        timers: messages that say themselves when they are due.
    """

    def __init__(
        self,
        levels: Live[DelayLevels],
        store: MessageStore,
        metadata: Metadata,
        clock: Clock,
        appender: Appender,
        targets: RealTargets,
        timer_settings: Live[TimerSettings] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._levels, self._store, self._clock = levels, store, clock
        self._metadata, self._appender, self._targets = metadata, appender, targets
        levels.follow(self._apply)
        text = metadata.state(_OFFSETS)
        self._saved = {} if text is None else msgspec.json.decode(text, type=dict[int, int])
        self._deliveries: dict[int, LevelDelivery] = {}
        self.timers = Timers(
            timer_settings or Live(TimerSettings()),
            store,
            metadata,
            clock,
            appender,
            self._target,
            rng or random.Random(),
        )

    def start(self) -> None:
        """Starts the deliveries of all levels that hold messages, and of the timers."""
        self._bring_back()
        for queue_id in self._store.queue_ids(names.SCHEDULE_TOPIC):
            self._delivery(queue_id)
        self.timers.delivery.open()

    def _bring_back(self) -> None:
        """Sets progress back to the end of a log that lost messages: new ones get their offsets."""
        ends = dict(self._saved)
        for queue_id, offset in self._saved.items():
            end = self._store.end_offset(names.SCHEDULE_TOPIC, queue_id)
            if end is not None and end < offset:
                ends[queue_id] = end
        if ends != self._saved:
            self._save(ends, durably=True)

    def _save(self, offsets: dict[int, int], *, durably: bool = False) -> None:
        self._metadata.set_state(_OFFSETS, _encode(offsets).decode(), durably=durably)
        self._saved = offsets

    def _apply(self, levels: DelayLevels) -> None:
        """Tells the deliveries the new delays; messages that wait keep the time they were given."""
        for queue_id, delivery in self._deliveries.items():
            delivery.delay_ms = levels.delay_ms(queue_id + 1)

    def _delivery(self, queue_id: int) -> LevelDelivery:
        delivery = self._deliveries.get(queue_id)
        if delivery is None:
            delivery = self._deliveries[queue_id] = LevelDelivery(
                self._store,
                self._clock,
                self._appender,
                queue_id,
                self._levels.now.delay_ms(queue_id + 1),
                self._saved.get(queue_id, 0),
                self._target,
            )
            delivery.open()
        return delivery

    # -- taking -------------------------------------------------------------------------------

    def redirect_as_asked(self, target: QueueLog, properties: str) -> Redirect | None:
        """Redirects a message that asks for a delay level or a time; a level comes first.

        Args:
            target: the log that it is for.
            properties: of the message, encoded.

        Returns:
            None if it is to be delivered at once.

        Raises:
            ResponseError: 13 or 1, it asks for what cannot be, see `Timers.redirect`.
            StoreError: the log to wait in cannot be made or opened.
        """
        level = delay_level_of(properties)
        if level > 0:
            return self.redirect_to_level(level, target, properties)
        return self.timers.redirect(target.topic, target.queue_id, properties)

    def redirect_to_level(self, level: int, target: QueueLog, properties: str) -> Redirect:
        """Redirects a message to a delay level (`HookUtils#handleScheduleMessage`).

        The caller appends it there, with the deliver time as prepared transaction offset, and with
        `waking` around its callback.

        Args:
            level: from 1; too high ones become the highest.
            target: the log that it is for.
            properties: of the message, encoded.

        Raises:
            StoreError: the level's log cannot be made or opened.
        """
        level = self._levels.now.clamp(level)
        queue_log = self._store.queue_log(names.SCHEDULE_TOPIC, level - 1)
        delivery = self._delivery(level - 1)
        # The store time first: the delay must not end before store time + level. Only after the
        # clock was set back does the clock count alone, as store times never go back.
        store_ms = self._store.store_time(queue_log)
        deliver_ms = delivery.look_at_clock(queue_log) + self._levels.now.delay_ms(level)
        changes: dict[str, str | None] = {
            **dict.fromkeys(props.TIMER_PROPERTIES),  # the level wins over them
            props.DELAY: str(level),
            props.REAL_TOPIC: target.topic,
            props.REAL_QUEUE_ID: str(target.queue_id),
        }
        text = with_properties(properties, changes)
        return Redirect(queue_log, store_ms, deliver_ms, text, target.topic)

    def waking(self, redirect: Redirect, on_stored: OnStored) -> OnStored:
        """The callback of an append to a log in which messages wait: wakes its delivery first."""

        def wake_then(error: OperatingError | None) -> None:
            self._delivery_of(redirect.queue_log).wake()
            if redirect.queue_log.topic == names.TIMER_TOPIC and is_stored(error):
                self.timers.stored(redirect)
            on_stored(error)

        return wake_then

    def _delivery_of(self, queue_log: QueueLog) -> Delivery:
        if queue_log.topic == names.TIMER_TOPIC:
            return self.timers.delivery
        return self._delivery(queue_log.queue_id)

    # -- delivering ---------------------------------------------------------------------------

    def _target(self, message: StoredMessage) -> QueueLog | None:
        target = self._targets.find(message)
        if isinstance(target, str):
            log.warning("a delayed message at %d is dropped: %s", message.physical_offset, target)
            return None
        return target

    def still_needs(self, queue_log: QueueLog) -> bool:
        """Whether the oldest segment of a log holds messages that are not delivered yet."""
        if queue_log.topic not in (names.SCHEDULE_TOPIC, names.TIMER_TOPIC):
            return False
        _, end_offset = queue_log.segment_end(0)
        delivery = self._delivery_of(queue_log)
        delivery.advance()
        return delivery.durable_offset < end_offset

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Of each level that is used, how far it has delivered and where its queue ends."""
        return {
            queue_id + 1: (delivery.progress.advance(), queue_log.max_offset)
            for queue_id, delivery in sorted(self._deliveries.items())
            if (queue_log := self._store.find_log(names.SCHEDULE_TOPIC, queue_id)) is not None
        }

    @property
    def waiting_count(self) -> int:
        """Messages of all levels, and timers, that are not delivered yet."""
        levels = (
            queue_log.max_offset - delivery.offset
            for queue_id, delivery in self._deliveries.items()
            if (queue_log := self._store.find_log(names.SCHEDULE_TOPIC, queue_id)) is not None
        )
        return sum(levels) + len(self.timers.delivery.index)

    def try_again(self) -> None:
        """Delivers at once what the store held up, as when the disk has room again."""
        for delivery in self._all_deliveries():
            delivery.try_again()

    def _all_deliveries(self) -> list[Delivery]:
        return [*self._deliveries.values(), self.timers.delivery]

    # -- progress -----------------------------------------------------------------------------

    def save(self) -> None:
        """Saves how far each level and the timers have delivered."""
        offsets = self._saved | {
            queue_id: delivery.progress.advance() for queue_id, delivery in self._deliveries.items()
        }
        if offsets != self._saved:
            self._save(offsets)
        self.timers.delivery.save()

    async def close(self) -> None:
        """Stops delivering, and saves all progress, so that no message is delivered twice."""
        deliveries = self._all_deliveries()
        for delivery in deliveries:
            delivery.stop()
        await self._store.drain()
        for delivery in deliveries:
            delivery.settle()
        waiting = sum(delivery.advance() for delivery in deliveries)
        while waiting:
            await self._store.checkpoint()
            before, waiting = waiting, sum(delivery.advance() for delivery in deliveries)
            if waiting >= before:
                break  # the disk does not take it: it is delivered again after the next start
        try:
            self.save()
        except WriteFailedError as e:
            log.error("the next start looks for its place in the delays anew: %s", e)
