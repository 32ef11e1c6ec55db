"""Topics and their queues: topic → broker name → queue counts, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from pocketmq.protocol.bodies.routes import QueueData
from pocketmq.protocol.bodies.topics import TopicQueueMapping
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError

TOPICS_MAX = 1_000_000
"""Topics of one name server; each takes about 250 bytes, and 60 for each broker."""

SHARED_COUNTS_MAX = 10_000
"""Different queue counts that topics share; beyond, all are forgotten, and collected again."""

UNIT = 1
UNIT_SUB = 2
"""Bits of `topicSysFlag` (`common/sysflag/TopicSysFlag`)."""


class QueueCounts(msgspec.Struct, frozen=True, gc=False):
    """A topic's queues on one broker name: `QueueData` without the name.

    Few of them differ, so topics and brokers share them.
    """

    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int

    def of_broker(self, broker: str) -> QueueData:
        """Returns them as the wire has them."""
        return QueueData(
            broker_name=broker,
            read_queue_nums=self.read_queue_nums,
            write_queue_nums=self.write_queue_nums,
            perm=self.perm,
            topic_sys_flag=self.topic_sys_flag,
        )


class _Topic(msgspec.Struct, gc=False):
    """A topic: its name, its queues by broker name, and the generation of its last change.

    The garbage collector looks at neither topics nor counts, and so not at the tables of them: with
    a quarter of a million topics it would take 100 ms each time.
    """

    name: str
    by_broker: dict[str, QueueCounts] = msgspec.field(default_factory=dict)
    mappings: dict[str, TopicQueueMapping] | None = None
    generation: int = 0


class TopicQueueTable:
    """The queues of each topic by broker name, and the topics of each broker name.

    Each broker name knows its topics, so that what concerns one broker costs as much as that
    broker has topics, however many others there are.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._topics_of: dict[str, dict[str, _Topic]] = {}
        self._joined: dict[str, int] = {}
        self._shared: dict[QueueCounts, QueueCounts] = {}
        self.generation = 0
        """A number that grows with every change."""

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, topic: object) -> bool:
        return topic in self._topics

    def check_room(self, topics: Collection[str]) -> None:
        """Refuses topics that would be too many.

        Raises:
            ResponseError: there would be more than `TOPICS_MAX`.
        """
        if len(self) + len(topics) <= TOPICS_MAX:
            return
        if len(self) + sum(topic not in self for topic in topics) > TOPICS_MAX:
            raise ResponseError(
                ResponseCode.SYSTEM_ERROR,
                f"this name server would know more than {TOPICS_MAX} topics: delete unused ones",
            )

    def put(self, topic: str, broker: str, counts: QueueCounts) -> None:
        """Sets a topic's queues on a broker name."""
        self.put_all(broker, [(topic, counts)])

    def put_all(self, broker: str, topics: Iterable[tuple[str, QueueCounts]]) -> None:
        """Sets the queues of some topics on a broker name."""
        known, of_broker = self._topics, self._topics_of.get(broker, {})
        for topic, counts in topics:
            entry = known.get(topic)
            if entry is None:
                entry = known[topic] = _Topic(topic)
            before = entry.by_broker.get(broker)
            if before == counts:
                continue
            entry.by_broker[broker] = self._share(counts)
            self._changed(entry)
            if before is None:
                of_broker[entry.name] = entry
                self._topics_of[broker] = of_broker
                self._joined[broker] = self.generation

    def _share(self, counts: QueueCounts) -> QueueCounts:
        if len(self._shared) >= SHARED_COUNTS_MAX:
            self._shared.clear()
        return self._shared.setdefault(counts, counts)

    def _changed(self, entry: _Topic) -> None:
        self.generation += 1
        entry.generation = self.generation

    def put_mapping(self, topic: str, mapping: TopicQueueMapping) -> None:
        """Sets which logical queues of a known static topic a broker name holds."""
        entry = self._topics.get(topic)
        if entry is None:
            return
        if entry.mappings is None:
            entry.mappings = {}
        broker = mapping.bname or ""
        if entry.mappings.get(broker) != mapping:
            entry.mappings[broker] = mapping
            self._changed(entry)

    def holds(self, topic: str, broker: str) -> bool:
        """Whether the broker name has queues of the topic."""
        return topic in self._topics_of.get(broker, ())

    def queues(self, topic: str) -> list[QueueData]:
        """Returns a topic's queues, sorted by broker name."""
        return [counts.of_broker(broker) for broker, counts in self.counts(topic)]

    def counts(self, topic: str) -> list[tuple[str, QueueCounts]]:
        """Returns broker names with a topic's queues, sorted by name."""
        entry = self._topics.get(topic)
        if entry is None:
            return []
        by_broker = entry.by_broker
        return [(broker, by_broker[broker]) for broker in sorted(by_broker)]

    def generation_of(self, topic: str) -> int:
        """Returns the generation in which a topic changed last; 0 for an unknown one.

        A topic that vanishes and comes again has a later one than before.
        """
        entry = self._topics.get(topic)
        return 0 if entry is None else entry.generation

    def membership(self, broker: str) -> int:
        """Returns a number that is another one when a broker name has got or lost a topic."""
        return self._joined.get(broker, 0)

    def mappings(self, topic: str) -> dict[str, TopicQueueMapping] | None:
        """Returns a static topic's mappings by broker name; None for any other topic."""
        entry = self._topics.get(topic)
        return dict(entry.mappings) if entry is not None and entry.mappings else None

    def topics(self) -> list[str]:
        """Returns all topics."""
        return list(self._topics)

    def topics_of(self, brokers: Iterable[str]) -> list[str]:
        """Returns the topics of some broker names, each once."""
        return list({topic: None for b in brokers for topic in self._topics_of.get(b, ())})

    def topics_with_flags(self, present: int, absent: int = 0) -> list[str]:
        """Returns topics with and without some bits of `topicSysFlag` (first broker counts)."""
        return [
            topic
            for topic, entry in self._topics.items()
            if (flag := next(iter(entry.by_broker.values())).topic_sys_flag) & present == present
            and not flag & absent
        ]

    def change_perm(self, broker: str, change: Callable[[int], int]) -> int:
        """Sets the permission of all topics of a broker name, and returns how many they are."""
        topics = self._topics_of.get(broker, {})
        self.put_all(
            broker,
            (
                (topic, msgspec.structs.replace(old, perm=change(old.perm)))
                for topic, entry in topics.items()
                for old in (entry.by_broker[broker],)
            ),
        )
        return len(topics)

    def keep_only(self, broker: str, topics: Collection[str]) -> None:
        """Removes all topics but these from a broker name."""
        for topic in [t for t in self._topics_of.get(broker, ()) if t not in topics]:
            self._remove(topic, broker)

    def remove_broker(self, broker: str) -> None:
        """Removes all topics of a broker name; a topic without queues elsewhere vanishes."""
        self.keep_only(broker, ())

    def remove_topic(self, topic: str, brokers: Iterable[str] | None = None) -> None:
        """Removes a topic from some broker names, or from all."""
        entry = self._topics.get(topic)
        if entry is None:
            return
        held = entry.by_broker
        for broker in list(held) if brokers is None else [b for b in brokers if b in held]:
            self._remove(topic, broker)

    def _remove(self, topic: str, broker: str) -> None:
        topics = self._topics_of[broker]
        entry = topics.pop(topic)
        del entry.by_broker[broker]
        self._changed(entry)
        self._joined[broker] = self.generation
        if not entry.by_broker:
            del self._topics[topic]
        if not topics:
            del self._topics_of[broker], self._joined[broker]
