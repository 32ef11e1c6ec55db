"""Redirects timer messages, which say themselves when they are due (`store/timer`)."""

from __future__ import annotations

import random
import re

import msgspec

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import with_properties
from pocketmq.broker.config.config import CONGESTION_UNLIMITED, BrokerConfig
from pocketmq.broker.delay.delivery import FindTarget
from pocketmq.broker.delay.redirect import Redirect
from pocketmq.broker.delay.timer_delivery import TimerDelivery
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.listeners import Listeners
from pocketmq.runtime.live import Live

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_UNITS_MS = {props.TIMER_DELAY_SEC: 1000, props.TIMER_DELAY_MS: 1}


class TimerSettings(msgspec.Struct, frozen=True):
    """How a broker treats timers.

    Attributes:
        is_enabled: whether new ones are taken; what waits is delivered anyway.
        precision_ms: width of RocketMQ's slots, which recall handles and limits count in.
        delay_max_ms: the longest delay.
        congestion_max: from so many messages of one slot on a rising share of sends is refused,
            from twice as many on all of them.
    """

    is_enabled: bool = True
    precision_ms: int = 1000
    delay_max_ms: int = 3 * 86_400_000
    congestion_max: int = CONGESTION_UNLIMITED

    @classmethod
    def of(cls, config: BrokerConfig) -> TimerSettings:
        """The part of a broker's settings that timers depend on."""
        return cls(
            is_enabled=config.timer_wheel_enable,
            precision_ms=config.timer_precision_ms,
            delay_max_ms=config.timer_max_delay_sec * 1000,
            congestion_max=config.timer_congest_num_each_slot,
        )


class Timers:
    """The timer messages of a broker.

    Args:
        settings: limits.
        store, appender: where messages wait and go.
        metadata: knows which messages were delivered.
        find_target: where a message goes when it is due.
        rng: decides who is refused when a slot is congested.

    Attributes:
        delivery: delivers them.
        taken: notified of the topic and the delay in milliseconds of each new one.
        recalled: notified of the topic of each recall.
    """

    def __init__(
        self,
        settings: Live[TimerSettings],
        store: MessageStore,
        metadata: Metadata,
        clock: Clock,
        appender: Appender,
        find_target: FindTarget,
        rng: random.Random,
    ) -> None:
        self._settings, self._store, self._clock, self._rng = settings, store, clock, rng
        self.taken: Listeners[[str, int]] = Listeners()
        self.recalled: Listeners[[str]] = Listeners()
        counts_slots = settings.now.congestion_max < CONGESTION_UNLIMITED
        self.delivery = TimerDelivery(
            store, metadata, clock, appender, find_target, settings.now.precision_ms, counts_slots
        )

    def redirect(self, topic: str, queue_id: int, properties: str) -> Redirect | None:
        """Redirects a message that asks for a time (`HookUtils#handleScheduleMessage`).

        The caller appends it there, with the deliver time as prepared transaction offset, and with
        `Schedule.waking` around its callback.

        Args:
            topic, queue_id: where it is to be delivered.
            properties: of the message, encoded.

        Returns:
            None if it is to be delivered at once.

        Raises:
            ResponseError: 13 for a time that is no number, or too far away; 1 if there are no
                timers, or too many of that time.
            StoreError: the timer log cannot be made or opened.
        """
        asked = _asked_for(properties)
        if asked is None:
            return None
        settings = self._settings.now
        if not settings.is_enabled:
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false: send it without "
                "a time or with a delay level",
            )
        queue_log = self._store.queue_log(names.TIMER_TOPIC, 0)
        store_ms = self._store.store_time(queue_log)
        now = self._clock.now_ms()
        deliver_ms = _deliver_ms(asked, now)
        if deliver_ms - now > settings.delay_max_ms:
            raise self._too_late(deliver_ms - now)
        is_recall = props.value_of(properties, props.TIMER_DELETE_KEY) is not None
        if deliver_ms <= now:
            if is_recall:
                raise _illegal("a recall needs a time that is not over")
            return None
        slot_ms = (deliver_ms - 1) // settings.precision_ms * settings.precision_ms
        if self._is_congested(deliver_ms):
            raise self._congested()
        changes: dict[str, str | None] = {
            props.TIMER_OUT_MS: str(slot_ms),
            props.TIMER_ENQUEUE_MS: None,
            props.TIMER_DEQUEUE_MS: None,
            props.REAL_TOPIC: topic,
            props.REAL_QUEUE_ID: str(queue_id),
        }
        text = with_properties(properties, changes)
        if is_recall:
            self.delivery.expect_recall()
            return Redirect(queue_log, store_ms, -slot_ms, text, topic)
        return Redirect(queue_log, store_ms, deliver_ms, text, topic, deliver_ms - now)

    def stored(self, redirect: Redirect) -> None:
        """Tells that a redirected message, or a recall, is in the log of the timers."""
        if redirect.deliver_ms < 0:
            self.recalled.notify(redirect.topic)
        else:
            self.taken.notify(redirect.topic, redirect.delay_ms)

    def _is_congested(self, deliver_ms: int) -> bool:
        limit = self._settings.now.congestion_max
        count = self.delivery.index.count_near(deliver_ms)
        return count > limit and self._rng.random() * limit < count - limit

    def _congested(self) -> ResponseError:
        limit = self._settings.now.congestion_max
        return response_error(
            ResponseCode.SYSTEM_ERROR,
            f"timer message is under flow control: more than timerCongestNumEachSlot, which is "
            f"{limit}, wait for the same time, and at most {2 * limit} may: choose another time",
        )

    def _too_late(self, delay_ms: int) -> ResponseError:
        limit_ms = self._settings.now.delay_max_ms
        return _illegal(
            f"the delay time should not be bigger than the max delay {limit_ms}ms "
            f"(timerMaxDelaySec), and it is {delay_ms}ms"
        )


def _asked_for(properties: str) -> tuple[str, str] | None:
    """The first property by which a message asks for a time; None for delivery at once."""
    if "TIMER_" not in properties or props.value_of(properties, props.TIMER_OUT_MS) is not None:
        return None  # a timer message that comes back was delivered in time
    for name in props.TIMER_PROPERTIES:
        value = props.value_of(properties, name)
        if value is not None:
            return name, value
    return None


def _deliver_ms(asked: tuple[str, str], now_ms: int) -> int:
    name, value = asked
    if not _NUMBER.fullmatch(value):
        raise _illegal(f"its property {name} is {value[:32]!r}, which is no number")
    unit_ms = _UNITS_MS.get(name)
    return int(value) if unit_ms is None else now_ms + int(value) * unit_ms


def _illegal(reason: str) -> ResponseError:
    return response_error(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, {reason}")
