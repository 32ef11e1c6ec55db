"""How many timer and half messages wait, by the topics that they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest
from operator import itemgetter

from pocketmq.broker.appending.stored_message import StoredMessage, stored_in
from pocketmq.broker.delay.timers import Timers
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.runtime.metrics.exposition import Exposition, Family
from pocketmq.runtime.metrics.instruments import SERIES_MAX

READ_PER_SCRAPE_MAX = 20_000
"""Timer messages of earlier runs whose topics one scrape reads."""

READ_PER_SLICE_MAX = 100
SIZE_PER_READ_MAX = 1024 * 1024

LOOKS_MAX = 5000
"""Open half messages that a scrape looks at one by one; of more, as many stand for all of them."""

HALVES_PER_SLICE = 100

_READ_WORK = 5


class WaitingTopics:
    """Counts by topic; a topic stays with 0 until it is deleted, as RocketMQ's do.

    Args:
        family: a gauge.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._counts: dict[str, int] = {}

    def add(self, topic: str, change: int) -> None:
        """Changes the count of a topic."""
        self._counts[topic] = self._counts.get(topic, 0) + change

    def clear(self) -> None:
        """Sets all counts to 0."""
        self._counts = dict.fromkeys(self._counts, 0)

    def write(
        self, out: Exposition, exists: Callable[[str], bool], labels: Callable[[str], str]
    ) -> Iterator[int]:
        """Writes the topics with the most messages; yields the work.

        Args:
            out: the scrape.
            exists: whether there is a topic.
            labels: makes the text of a topic's labels.
        """
        gone = [topic for topic, count in self._counts.items() if not count and not exists(topic)]
        for topic in gone:
            del self._counts[topic]
        yield len(self._counts)
        rows = [(topic, max(count, 0)) for topic, count in self._counts.items() if exists(topic)]
        out.begin(self._family)
        for topic, count in nlargest(SERIES_MAX, rows, key=itemgetter(1)):
            out.sample(labels(topic), count)
            yield 1


class TimingTopics(WaitingTopics):
    """Counts timer messages as they are stored and done with; a recall counts as one less.

    Those of earlier runs are read by scrapes, a bounded number each, since the index of times does
    not know topics.

    Args:
        family: a gauge.
        store, timers: of the broker, which has just started to deliver.
    """

    def __init__(self, family: Family, store: MessageStore, timers: Timers) -> None:
        super().__init__(family)
        self._store, self._delivery = store, timers.delivery
        self._found = timers.delivery.found
        self._read_to = self._found.start
        self._done_before_read = bytearray(len(self._found))
        timers.taken.add(lambda topic, _: self.add(topic, 1))
        timers.recalled.add(lambda topic: self.add(topic, -1))
        timers.delivery.copied.add(lambda topic, offset: self._done(topic, offset, -1))
        timers.delivery.dropped.add(lambda topic, offset: self._done(topic, offset, -1))
        timers.delivery.forgotten.add(lambda topic, offset: self._done(topic, offset, 1))

    def _done(self, topic: str, offset: int, change: int) -> None:
        if self._read_to <= offset < self._found.stop:
            self._done_before_read[offset - self._found.start] = 1
        else:
            self.add(topic, change)

    def read(self) -> Iterator[int]:
        """Reads topics of messages that earlier runs have stored; yields the work."""
        queue_log = self._store.find_log(names.TIMER_TOPIC, 0)
        count = 0
        while queue_log is not None and count < READ_PER_SCRAPE_MAX:
            first = self._delivery.next_waiting(max(self._read_to, queue_log.min_offset))
            if first >= self._found.stop:
                self._read_to, self._done_before_read = self._found.stop, bytearray()
                return
            self._read_to = first
            end = first + 1
            while end - first < READ_PER_SLICE_MAX and end == self._delivery.next_waiting(end):
                end += 1
            try:
                self._read_run(queue_log, min(end, self._found.stop))
            except (OSError, StoreError):  # the store tells of damage itself
                return
            count += self._read_to - first
            yield _READ_WORK * (self._read_to - first)

    def _read_run(self, queue_log: QueueLog, end: int) -> None:
        part = queue_log.read(self._read_to, end - self._read_to, SIZE_PER_READ_MAX)
        for message in stored_in(part, self._read_to):
            if not self._done_before_read[self._read_to - self._found.start]:
                is_recall = message.prepared_transaction_offset < 0
                self.add(_topic_of(message), -1 if is_recall else 1)
            self._read_to += 1
        if self._read_to < part.next_offset:
            self._read_to += 1  # a damaged one


class HalfTopics(WaitingTopics):
    """Counts the open half messages anew for each scrape, and remembers their topics for the next.

    Args:
        family: a gauge.
        transactions: of the broker.
    """

    def __init__(self, family: Family, transactions: Transactions) -> None:
        super().__init__(family)
        self._transactions = transactions
        self._known: dict[int, str] = {}

    def count(self) -> Iterator[int]:
        """Counts anew; yields the work."""
        self.clear()
        half = self._transactions.half_log
        if half is None:
            return
        self._transactions.grow()
        states = self._transactions.half_states
        end, step = states.end, -(-states.open_count() // LOOKS_MAX) or 1
        known, self._known = self._known, {}
        offset = passed = 0
        while (run := states.next_open(offset, end, HALVES_PER_SLICE)) is not None:
            looks = range(run.start + -passed % step, run.end, step)
            work = 1
            for place in looks:
                topic = known.get(place)
                if topic is None:
                    topic, work = self._topic_at(half, place), work + _READ_WORK
                if topic:
                    self._known[place] = topic
                    self.add(topic, step)
            offset, passed = run.end, passed + run.end - run.start
            yield work + len(looks)

    @staticmethod
    def _topic_at(half: QueueLog, offset: int) -> str:
        try:
            for message in stored_in(half.read(offset, 1, 1), offset):
                return _topic_of(message)
        except (OSError, StoreError):  # the store tells of damage itself
            pass
        return ""


def _topic_of(message: StoredMessage) -> str:
    return props.value_of(message.text, props.REAL_TOPIC) or ""
