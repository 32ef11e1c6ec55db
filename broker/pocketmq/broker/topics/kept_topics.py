"""The topics whose attributes say how long, or how much of them, is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.broker.store.kept import Kept
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import RESERVE_TIME, RETENTION_BYTES, TopicConfig

HOUR_MS = 3_600_000


class KeptTopics:
    """Finds the topics with retention of their own; what did not change is not looked at again.

    Args:
        topics: of the broker.
    """

    def __init__(self, topics: TopicTable) -> None:
        self._topics, self._version = topics, topics.version
        self._kept = self._of(topics)

    def now(self) -> Mapping[str, Kept]:
        """Returns them by name: the same mapping as before if none of them has changed."""
        version, before = self._topics.version, self._version
        if version != before:
            self._version = version
            changes = self._topics.changed_since(before)
            if changes is None or version.counter < before.counter:
                kept = self._of(self._topics)
            else:
                names = {config.topic_name for config in changes.changed} | {*changes.removed}
                kept = {name: k for name, k in self._kept.items() if name not in names}
                kept |= self._of(changes.changed)
            if kept != self._kept:
                self._kept = kept
        return self._kept

    def _of(self, configs: Iterable[TopicConfig]) -> dict[str, Kept]:
        found = ((config.topic_name, kept_of(config)) for config in configs if config.attributes)
        return {name: kept for name, kept in found if kept != Kept()}


def kept_of(config: TopicConfig | None) -> Kept:
    """Reads a topic's attributes; in RocketMQ, too, 0 and less leave the time to the broker."""
    if config is None:
        return Kept()
    hours = int(config.attributes.get(RESERVE_TIME, -1))
    size = int(config.attributes.get(RETENTION_BYTES, -1))
    return Kept(hours * HOUR_MS if hours > 0 else None, size if size > 0 else None)
