"""How far each group is behind in each of its topics (`ConsumerLagCalculator`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.retention import Retention

LOOKS_MAX = 500
"""Messages that one scrape looks at for their age; it remembers those of the scrapes before."""

LOOKS_OF_OPENING = 25
"""As so many looks counts one for which a log is opened."""

OPENINGS_OF_PAIR_MAX = 2
"""Logs that one scrape opens for a group in a topic, so that other pairs get their looks, too."""

LOOKS_OF_PAIR_MAX = 16
"""Queues of a group in a topic whose oldest messages are looked at: those with the most."""

ENDS_REMEMBERED = 16
"""Scrapes after which the queues of a topic are looked at again though nothing was sent."""

WORK_OF_A_LOOK = 20
"""A look at a message may open a log, and costs as much as so many lines."""

WORK_OF_A_GROUP = 2
"""A group that lacks nothing in a topic costs as much as so many lines."""

WORK_OF_A_LAG = 3
"""A queue in which a group may lack messages costs as much as so many lines."""

WORK_MAX = 250
"""Work that is done before others may have their turn."""


Lag = tuple[int, int, int, int, int, str, str]
"""How far a group is behind in a topic: messages that are not acknowledged, those of them that it
was not given yet, and that it was given; the ages in ms of the oldest of all, and of those that it
was not given, 0 without any; the group, and the topic.

Plain tuples of numbers and names are nothing to the garbage collection, and there may be many.
"""

_QueueLag = tuple[int, int, int, int]
"""A queue's lag, the offsets that the group has committed and was given, and the queue's id."""


class _Look(NamedTuple):
    """What was seen of a queue.

    Attributes:
        committed, given: the offsets that were looked at.
        min_offset: of the queue.
        oldest_ms, oldest_ready_ms: when the messages at the offsets were stored; None without any.
    """

    committed: int
    given: int
    min_offset: int
    oldest_ms: int | None
    oldest_ready_ms: int | None


class _Ends(NamedTuple):
    """Where the queues of a topic ended, and by what to see whether they still do.

    Attributes:
        messages: that were stored in the topic by then.
        logs: the table of its logs: another one after the topic was deleted and made again.
        damaged: how many queues of the broker were damaged.
        ends: by queue.
    """

    messages: int
    logs: Mapping[int, object]
    damaged: int
    ends: dict[int, int]


class Lags:
    """Computes the lags for each scrape.

    Attributes:
        rows: the lags, once `compute` is through.
    """

    def __init__(self) -> None:
        self.rows: list[Lag] = []
        self._scrape = self._looks_left = self._openings_left = 0
        self._ends: dict[str, _Ends] = {}
        self._looks: dict[tuple[str, str], dict[int, _Look]] = {}
        self._looks_before: dict[tuple[str, str], dict[int, _Look]] = {}
        self._removed: tuple[Retention, int] | None = None
        self._may_begin_later = False

    def compute(self, parts: BrokerParts) -> Iterator[int]:
        """Fills `rows`; yields the work it has done, see `Exposition.write`.

        Args:
            parts: of the broker.
        """
        self._parts, self._store = parts, parts.data.store
        self._scrape += 1
        self._looks_left = LOOKS_MAX
        self._looks_before, self._looks = self._looks, {}
        removed = (parts.retention, parts.retention.removed_count)
        self._may_begin_later, self._removed = removed != self._removed, removed
        self.rows = rows = []
        topics, logs = parts.data.topics, self._store.logs
        of_topic, traffic = logs.table.of_topic, self._store.counters.topics
        damaged, before = len(self._store.damaged), self._ends
        if self._store.committer.replicas is not None:
            before = {}  # readers see what is stored only when others have it
        seen: dict[str, _Ends] = {}
        work = 0
        for pair in parts.data.offsets.pairs():
            group, topic = pair
            found = seen.get(topic)
            if found is None:
                if topic not in topics:
                    continue
                found, logs_of_topic = before.get(topic), of_topic(topic)
                stored = traffic.get(topic)
                messages = 0 if stored is None else stored.messages
                is_due = (hash(topic) + self._scrape) % ENDS_REMEMBERED == 0  # to be sure
                if (
                    found is None
                    or is_due
                    or found.messages != messages
                    or found.logs is not logs_of_topic
                    or found.damaged != damaged
                ):
                    found = _Ends(messages, logs_of_topic, damaged, logs.ends(topic))
                    work += len(found.ends)
                seen[topic] = found
            work += WORK_OF_A_GROUP
            offsets = parts.data.offsets.of_pair(pair)
            if offsets == found.ends:  # most groups lack nothing
                rows.append((0, 0, 0, 0, 0, group, topic))
            else:
                yield from self._behind(group, topic, offsets, found.ends)
            if work >= WORK_MAX:
                yield work
                work = 0
        self._ends = seen

    def _behind(
        self, group: str, topic: str, offsets: dict[int, int], ends: dict[int, int]
    ) -> Iterator[int]:
        """Computes the row of a group that may lack messages of a topic; yields the work."""
        config = self._parts.data.topics.get(topic)
        read_queue_nums = 0 if config is None else config.read_queue_nums
        pulled = self._parts.progress.pulled.get((group, topic))
        progress = {} if pulled is None else pulled.queues
        pops = self._parts.popping.queues
        queues: list[_QueueLag] = []
        in_flight = work = 0
        for queue_id, end in ends.items():
            committed = offsets.get(queue_id, 0)
            if end > committed and queue_id < read_queue_nums:
                popped = pops.get(group, topic, queue_id) if pops else None
                if popped is not None:
                    given = min(popped.next_offset, end)
                    in_flight += popped.in_flight.count
                else:
                    pull = progress.get(queue_id)
                    given = committed
                    if pull is not None and pull.offset > committed:
                        given = min(pull.offset, end)
                    in_flight += given - committed
                queues.append((end - committed, committed, given, queue_id))
            work += WORK_OF_A_LAG
            if work >= WORK_MAX:
                yield work
                work = 0
        left = self._looks_left
        self.rows.append(self._row(group, topic, queues, in_flight))
        yield work + WORK_OF_A_LOOK * (left - self._looks_left)

    def _row(self, group: str, topic: str, queues: list[_QueueLag], in_flight: int) -> Lag:
        """Sums up the queues, and looks at the oldest messages of those that lack the most."""
        now_ms = self._parts.clock.now_ms()
        if len(queues) > LOOKS_OF_PAIR_MAX:
            queues.sort(reverse=True)
        looks = self._looks_at(group, topic, queues[:LOOKS_OF_PAIR_MAX])
        ready = lag = 0
        oldest_ms = oldest_ready_ms = now_ms
        for queue_lag, committed, given, queue_id in queues:
            first, first_ready = committed, given
            look = looks.get(queue_id)
            if look is not None:
                _, _, low, stored_ms, stored_ready_ms = look
                first, first_ready = max(committed, low), max(given, low)
                if stored_ms is not None and stored_ms < oldest_ms:
                    oldest_ms = stored_ms
                if stored_ready_ms is not None and stored_ready_ms < oldest_ready_ms:
                    oldest_ready_ms = stored_ready_ms
            end = committed + queue_lag
            lag += end - first
            ready += max(end - first_ready, 0)
        return lag, ready, in_flight, now_ms - oldest_ms, now_ms - oldest_ready_ms, group, topic

    def _looks_at(self, group: str, topic: str, queues: Sequence[_QueueLag]) -> Mapping[int, _Look]:
        """Looks at queues' oldest messages, unless the scrape before has; some have to wait."""
        before = self._looks_before.get((group, topic), {})
        looks = self._looks[group, topic] = {}
        wanted: list[_QueueLag] = []
        for queue in queues:
            _, committed, given, queue_id = queue
            look = before.get(queue_id)
            if (
                look is None
                or look[:2] != (committed, given)
                or (self._may_begin_later and self._begins_later(topic, queue_id, look))
            ):
                wanted.append(queue)
            else:
                looks[queue_id] = look
        self._openings_left = OPENINGS_OF_PAIR_MAX
        for queue in sorted(wanted, reverse=True):
            if self._looks_left <= 0:
                break
            look = self._look(topic, queue)
            if look is not None:
                looks[queue[3]] = look
        return looks

    def _begins_later(self, topic: str, queue_id: int, look: _Look) -> bool:
        queue_log = self._store.logs.peek(topic, queue_id)
        return queue_log is not None and queue_log.min_offset != look.min_offset

    def _look(self, topic: str, queue: _QueueLag) -> _Look | None:
        """Looks at a queue's oldest messages; None for not now."""
        _, committed, given, queue_id = queue
        queue_log = self._store.logs.peek(topic, queue_id)
        if queue_log is not None:
            self._looks_left -= 1
        elif not self._openings_left:
            return None
        else:
            self._looks_left -= LOOKS_OF_OPENING
            self._openings_left -= 1
            known = self._store.logs.table.get(topic, queue_id)
            queue_log = None if known is None else self._store.logs.readable_log(known)
            if queue_log is None:
                return None
        low = queue_log.min_offset
        return _Look(
            committed, given, low,
            _stored_ms(queue_log, max(committed, low)), _stored_ms(queue_log, max(given, low)),
        )  # fmt: skip


def _stored_ms(queue_log: QueueLog, offset: int) -> int | None:
    """When a message was stored; None if it is not there or cannot be read."""
    if not queue_log.min_offset <= offset < queue_log.max_offset:
        return None
    try:
        return queue_log.timestamp_at(offset)
    except (OSError, StoreError):  # the store tells of damage itself
        return None
