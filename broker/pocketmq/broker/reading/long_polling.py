"""Pulls that found nothing wait here for a message (`broker/longpolling/PullRequestHoldService`).

A held pull costs a few entries in tables; an idle queue costs nothing. Pulls whose time is over at
about the same moment share a timer: their answers then leave together. Many pulls are woken or
answered in portions, as the `WorkShare` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeVar

from pocketmq.broker.reading.filters import Selection
from pocketmq.broker.reading.held_filters import HeldFilters
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.work_share import WAKE_WORK, WorkShare
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.connection import Connection

KeyT = TypeVar("KeyT", bound=Hashable)

TICK_MS = 100
"""Held pulls end at full ticks: at most this much later than their clients asked for."""


class HeldPull(Protocol):
    """A pull that waits for a message.

    Attributes:
        connection: of the client.
        topic_name, queue_id: the queue it waits for.
        offset: queue offset from which on it wants a message.
        selection: which messages it wants.
    """

    @property
    def connection(self) -> Connection: ...  # noqa: D102

    @property
    def topic_name(self) -> str: ...  # noqa: D102

    @property
    def queue_id(self) -> int: ...  # noqa: D102

    @property
    def offset(self) -> int: ...  # noqa: D102

    selection: Selection
    end_tick: int
    """The tick at which its time is over; set while it is held."""

    def wake(self) -> bool:
        """Tries once more; True when the pull was answered.

        A pull that has only looked at a part of what came moves its offset there.
        """

    def expire(self) -> None:
        """Answers that nothing came."""


class _End:
    """The pulls whose time is over at the same tick, as they came, and their timer until then."""

    __slots__ = ("pulls", "timer")

    def __init__(self) -> None:
        self.pulls: dict[HeldPull, None] = {}
        self.timer: Timer | None = None


class LongPolling:
    """Held pulls by topic and queue.

    Args:
        clock: for their time limits.
        held_max: how many may wait together; further ones are answered at once.
        share: how many are woken in a turn of the loop.
        connection_max: how many of them one connection may have; by default all.
    """

    def __init__(
        self,
        clock: Clock,
        held_max: int,
        share: WorkShare | None = None,
        connection_max: int | None = None,
    ) -> None:
        self._clock, self._held_max = clock, held_max
        self._connection_max = held_max if connection_max is None else connection_max
        self._share = share or WorkShare()
        self._waking: dict[QueueLog, bool] = {}  # those whose pulls are woken; if they grew since
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._of_connection: dict[Connection, dict[HeldPull, None]] = {}
        self._ends: dict[int, _End] = {}
        self._count = 0
        self._filters = HeldFilters()

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, timeout_ms: int) -> bool:
        """Keeps a pull until a message arrives or its time is over; False if there is no room."""
        own = self._of_connection.get(pull.connection, {})
        if self._count >= self._held_max or len(own) >= self._connection_max:
            return False
        selection = self._filters.take(pull.selection)
        if selection is None:
            return False
        pull.selection = selection
        self._count += 1
        self._held.setdefault((pull.topic_name, pull.queue_id), {})[pull] = None
        own[pull] = None
        self._of_connection[pull.connection] = own
        now_s = self._clock.monotonic()
        tick = pull.end_tick = -(-(round(now_s * 1000) + timeout_ms) // TICK_MS)
        end = self._ends.get(tick)
        while end is not None and end.timer is None:  # it is over, and not all are answered yet
            tick = pull.end_tick = tick + 1
            end = self._ends.get(tick)
        if end is None:
            end = self._ends[tick] = _End()
            wait_s = tick * TICK_MS / 1000 - now_s
            end.timer = self._clock.call_later(wait_s, self._end, tick)
        end.pulls[pull] = None
        return True

    def arrived(self, queue_log: QueueLog) -> None:
        """Wakes the pulls of a queue that has new messages."""
        held = self._held.get((queue_log.topic, queue_log.queue_id))
        if held is None:
            return
        if queue_log in self._waking:
            self._waking[queue_log] = True
            return
        end = queue_log.end_offset
        behind = [pull for pull in held if pull.offset < end]
        if len(behind) == 1 and self._share.left > 0:  # the usual case, in few steps
            (pull,) = behind
            offset = pull.offset
            self._share.took(WAKE_WORK)
            if self._try(pull) or not offset < pull.offset < end:
                return
        self._wake_all(queue_log, behind)

    def _wake_all(self, queue_log: QueueLog, pulls: list[HeldPull]) -> None:
        self._waking[queue_log] = False
        unfinished: list[HeldPull] = []

        def wake(pull: HeldPull) -> None:
            offset = pull.offset
            try:
                if not self._try(pull) and pull.offset > offset:
                    unfinished.append(pull)
            except BaseException:  # the queue's next message must not find it marked for ever
                self._waking.pop(queue_log, None)
                raise

        self._each(iter(pulls), wake, lambda: self._woken(queue_log, unfinished))

    def _woken(self, queue_log: QueueLog, unfinished: Iterable[HeldPull]) -> None:
        """Wakes those again that have looked at a part only, or all if the queue has grown."""
        if self._waking[queue_log]:
            unfinished = self._held.get((queue_log.topic, queue_log.queue_id), ())
        end = queue_log.end_offset
        behind = [pull for pull in unfinished if pull.offset < end]
        if behind:
            self._share.put_off(partial(self._wake_all, queue_log, behind))
        else:
            del self._waking[queue_log]

    def look_again(self, topic: str, queue_id: int) -> None:
        """Wakes all pulls of a queue, as after an order to read on elsewhere."""
        self._each(iter(list(self._held.get((topic, queue_id), ()))), self._try)

    def wake_first(self, topic: str, queue_id: int) -> None:
        """Wakes the pulls of a queue, the oldest first, until one finds nothing: as for pops, of
        which each takes what it finds away from the others.
        """
        while self._share.left > 0:
            pull = next(iter(self._held.get((topic, queue_id), ())), None)
            if pull is None:
                return
            self._share.took(WAKE_WORK)
            if not self._try(pull):
                return
        self._share.put_off(partial(self.wake_first, topic, queue_id))

    def count_of(self, topic: str, queue_id: int) -> int:
        """How many pulls of a queue are held."""
        return len(self._held.get((topic, queue_id), ()))

    def _try(self, pull: HeldPull) -> bool:
        is_answered = self._is_held(pull) and pull.wake()
        if is_answered:
            self._remove(pull)
        return is_answered

    def _each(
        self,
        pulls: Iterator[HeldPull],
        act: Callable[[HeldPull], object],
        finished: Callable[[], object] = lambda: None,
    ) -> None:
        """Does something with each pull, as many in a turn of the loop as the share allows."""
        share = self._share
        while share.left > 0:
            pull = next(pulls, None)
            if pull is None:
                finished()
                return
            act(pull)
            share.took(WAKE_WORK)
        share.put_off(partial(self._each, pulls, act, finished))

    def release_all(self) -> None:
        """Answers every held pull: the broker stops."""
        for held in list(self._held.values()):
            for pull in list(held):
                self._expire(pull)

    def release_topic(self, topic: str) -> None:
        """Answers the held pulls of a topic that goes away."""
        pulls = [pull for key, held in self._held.items() if key[0] == topic for pull in held]
        self._each(iter(pulls), self._expire)

    def release(self, connection: Connection) -> None:
        """Answers the held pulls of a client, which then asks again."""
        self._each(iter(list(self._of_connection.get(connection, ()))), self._expire)

    def forget(self, connection: Connection) -> None:
        """Drops the held pulls of a client that is gone."""
        self._each(iter(list(self._of_connection.get(connection, ()))), self._remove)

    def _end(self, tick: int) -> None:
        end = self._ends[tick]
        end.timer = None
        self._each(iter(list(end.pulls)), self._expire)

    def _expire(self, pull: HeldPull) -> None:
        if self._remove(pull):
            pull.expire()

    def _is_held(self, pull: HeldPull) -> bool:
        end = self._ends.get(pull.end_tick)
        return end is not None and pull in end.pulls

    def _remove(self, pull: HeldPull) -> bool:
        """Takes a pull out of all tables; False if it is not held any more."""
        if not self._is_held(pull):
            return False
        end = self._ends[pull.end_tick]
        del end.pulls[pull]
        if not end.pulls:
            del self._ends[pull.end_tick]
            if end.timer is not None:
                end.timer.cancel()
        self._filters.give_back(pull.selection)
        _discard(self._held, (pull.topic_name, pull.queue_id), pull)
        _discard(self._of_connection, pull.connection, pull)
        self._count -= 1
        return True


def _discard(table: dict[KeyT, dict[HeldPull, None]], key: KeyT, pull: HeldPull) -> None:
    pulls = table[key]
    del pulls[pull]
    if not pulls:
        del table[key]
