"""Topics and their queues: topic → broker name → queue data, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pocketmq.protocol.bodies.routes import QueueData
from pocketmq.protocol.bodies.topics import TopicQueueMapping
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError

TOPICS_MAX = 1_000_000
"""Topics of one name server; each takes about half a kilobyte."""

UNIT = 1
UNIT_SUB = 2
"""Bits of `topicSysFlag` (`common/sysflag/TopicSysFlag`)."""


class TopicQueueTable:
    """The queues of each topic by broker name, and the topics of each broker name.

    Each broker name knows its topics, so that what concerns one broker costs as much as that
    broker has topics, however many others there are. Queue data are replaced, never changed.
    """

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}  # keys only: a set that keeps its order
        self._mappings: dict[str, dict[str, TopicQueueMapping]] = {}
        self.generation = 0
        """A number that grows with every change."""

    def __len__(self) -> int:
        return len(self._queues)

    def __contains__(self, topic: object) -> bool:
        return topic in self._queues

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

    def put(self, topic: str, queues: QueueData) -> None:
        """Sets a topic's queues on the broker name that stands in the queue data."""
        by_broker = self._queues.setdefault(topic, {})
        if by_broker.get(queues.broker_name) != queues:
            by_broker[queues.broker_name] = queues
            self._topics_of.setdefault(queues.broker_name, {})[topic] = None
            self.generation += 1

    def put_mapping(self, topic: str, mapping: TopicQueueMapping) -> None:
        """Sets which logical queues of a known static topic a broker name holds."""
        if topic not in self._queues:
            return
        mappings = self._mappings.setdefault(topic, {})
        broker = mapping.bname or ""
        if mappings.get(broker) != mapping:
            mappings[broker] = mapping
            self.generation += 1

    def holds(self, topic: str, broker: str) -> bool:
        """Whether the broker name has queues of the topic."""
        return broker in self._queues.get(topic, ())

    def queues(self, topic: str) -> list[QueueData]:
        """Returns a topic's queues, sorted by broker name."""
        by_broker = self._queues.get(topic, {})
        return [by_broker[broker] for broker in sorted(by_broker)]

    def mappings(self, topic: str) -> dict[str, TopicQueueMapping] | None:
        """Returns a static topic's mappings by broker name; None for any other topic."""
        mappings = self._mappings.get(topic)
        return dict(mappings) if mappings else None

    def topics(self) -> list[str]:
        """Returns all topics."""
        return list(self._queues)

    def topics_of(self, brokers: Iterable[str]) -> list[str]:
        """Returns the topics of some broker names, each once."""
        return list({topic: None for b in brokers for topic in self._topics_of.get(b, ())})

    def topics_with_flags(self, present: int, absent: int = 0) -> list[str]:
        """Returns topics with and without some bits of `topicSysFlag` (first broker counts)."""
        return [
            topic
            for topic, by_broker in self._queues.items()
            if (flag := next(iter(by_broker.values())).topic_sys_flag) & present == present
            and not flag & absent
        ]

    def change_perm(self, broker: str, change: Callable[[int], int]) -> int:
        """Sets the permission of all topics of a broker name, and returns how many they are."""
        topics = self._topics_of.get(broker, {})
        for topic in topics:
            old = self._queues[topic][broker]
            self.put(
                topic,
                QueueData(
                    broker_name=broker,
                    read_queue_nums=old.read_queue_nums,
                    write_queue_nums=old.write_queue_nums,
                    perm=change(old.perm),
                    topic_sys_flag=old.topic_sys_flag,
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
        held = self._queues.get(topic, {})
        for broker in list(held) if brokers is None else [b for b in brokers if b in held]:
            self._remove(topic, broker)

    def _remove(self, topic: str, broker: str) -> None:
        by_broker = self._queues[topic]
        del by_broker[broker]
        if not by_broker:
            del self._queues[topic]
            self._mappings.pop(topic, None)
        topics = self._topics_of[broker]
        del topics[topic]
        if not topics:
            del self._topics_of[broker]
        self.generation += 1
