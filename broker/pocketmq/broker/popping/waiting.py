"""Pops that found nothing wait here for a message (`broker/longpolling/PopLongPollingService`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from pocketmq.broker.reading.long_polling import HeldPull, LongPolling
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.popping import ALL_QUEUES
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.live import Live


class WaitingPop(HeldPull, Protocol):
    """A pop that waits for a message.

    Its `topic_name` is what `key_of` makes of its topic and group.

    Attributes:
        group, origin_topic: who pops what.
    """

    @property
    def group(self) -> str: ...  # noqa: D102

    @property
    def origin_topic(self) -> str: ...  # noqa: D102


def key_of(group: str, topic: str) -> str:
    """Under which name the pops of a group wait for a topic and its retry topic."""
    return f"{topic}@{group}"


class PopWaiting:
    """Held pops by topic, group and queue.

    Args:
        polling: holds them until their time is over.
        clock: of the messages' times.
        key_max: how many of one group may wait for one topic and queue id.
    """

    def __init__(self, polling: LongPolling, clock: Clock, key_max: Live[int]) -> None:
        self._polling, self._clock, self._key_max = polling, clock, key_max
        self._keys: dict[str, dict[str, None]] = {}
        self._queue_ids: dict[str, set[int]] = {}
        self._timers: dict[str, tuple[int, Timer]] = {}
        self.forget, self.release_all = polling.forget, polling.release_all
        self.release = polling.release

    @classmethod
    def of(
        cls,
        clock: Clock,
        held_max: int,
        connection_max: int,
        key_max: Live[int],
        share: WorkShare,
    ) -> PopWaiting:
        """Builds it with a `LongPolling` of its own.

        Args:
            clock: of the broker.
            held_max, connection_max, key_max: how many may wait in all, of one connection, and of
                one group for one topic and queue id.
            share: how many are woken in a turn of the loop.
        """
        return cls(LongPolling(clock.machine, held_max, share, connection_max), clock, key_max)

    def __len__(self) -> int:
        return len(self._polling)

    def count_of(self, group: str, topic: str, queue_id: int) -> int:
        """How many pops of a group wait for a queue, or for any with `ALL_QUEUES`."""
        return self._polling.count_of(key_of(group, topic), queue_id)

    def hold(self, pop: WaitingPop, timeout_ms: int) -> bool:
        """Keeps a pop until a message arrives or its time is over; False if there is no room."""
        key = pop.topic_name
        if self._polling.count_of(key, pop.queue_id) >= self._key_max.now:
            return False
        if not self._polling.hold(pop, timeout_ms):
            return False
        self._queue_ids.setdefault(key, set()).add(pop.queue_id)
        topic = pop.origin_topic
        for name in (topic, names.pop_retry_topic(pop.group, topic)):
            self._keys.setdefault(name, {})[key] = None
        return True

    def arrived(self, queue_log: QueueLog) -> None:
        """Wakes pops of a queue that has new messages; each pop looks at its retry topic, too."""
        keys = self._keys.get(queue_log.topic)
        if keys is None:
            return
        is_retry = queue_log.topic.startswith(names.RETRY_PREFIX)
        queue_ids = None if is_retry else (ALL_QUEUES, queue_log.queue_id)
        for key in list(keys):
            if not self._wake(key, queue_ids):
                del keys[key]
        if not keys:
            del self._keys[queue_log.topic]

    def look_again(self, group: str, topic: str) -> None:
        """Wakes the pops of a group and an origin topic, as when a queue is free again."""
        self._wake(key_of(group, topic))

    def look_again_at(self, group: str, topic: str, at_ms: int) -> None:
        """Does so at a time of the broker's clock, or earlier if that was asked for before."""
        key = key_of(group, topic)
        known = self._timers.get(key)
        if known is not None:
            if known[0] <= at_ms:
                return
            known[1].cancel()
        wait_s = max(at_ms - self._clock.now_ms(), 0) / 1000
        wait_s = min(wait_s, self._clock.timer_s_max)
        timer = self._clock.call_later(wait_s, self._time_is_up, group, topic)
        self._timers[key] = at_ms, timer

    def _time_is_up(self, group: str, topic: str) -> None:
        self._timers.pop(key_of(group, topic), None)
        self.look_again(group, topic)

    def _wake(self, key: str, queue_ids: Collection[int] | None = None) -> bool:
        """Wakes pops of some or all queues of a key; whether some wait there still."""
        known = self._queue_ids.get(key, set())
        for queue_id in list(known):
            if queue_ids is None or queue_id in queue_ids:
                self._polling.wake_first(key, queue_id)
            if not self._polling.count_of(key, queue_id):
                known.discard(queue_id)
        if not known:
            self._queue_ids.pop(key, None)
        return bool(known)

    def release_topic(self, topic: str) -> None:
        """Answers the pops of a topic that goes away."""
        for key in self._keys.pop(topic, {}):
            self._polling.release_topic(key)

    def close(self) -> None:
        """Stops all timers."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
