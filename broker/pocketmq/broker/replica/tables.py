"""A follower's topics, groups and offsets, which only its leader changes.

They are in memory as they are in the metadata. The tables of a leader write each change; these take
over changes that are written already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig

OffsetRow = tuple[str, str, int, int]


class ReplicaTopics(TopicTable):
    """The topics of a leader, as a follower knows them."""

    def learn(self, rows: Iterable[tuple[str, str]]) -> None:
        """Takes topics that were created or changed: (name, settings as JSON) rows."""
        for name, text in rows:
            self._topics[name] = msgspec.json.decode(text, type=TopicConfig)

    def unlearn(self, names: Iterable[str]) -> None:
        """Forgets topics that were deleted."""
        for name in names:
            self._topics.pop(name, None)

    def create_for_groups(self, queue_nums: Mapping[str, int]) -> None:
        """Creates nothing: the leader creates retry topics, for it gets the same heartbeats."""


class ReplicaGroups(GroupTable):
    """The groups of a leader, as a follower knows them.

    A group that the leader has not told yet has the settings of a new one.
    """

    def learn(self, rows: Iterable[tuple[str, str]]) -> None:
        """Takes groups that were created or changed: (name, settings as JSON) rows."""
        for name, text in rows:
            self._groups[name] = msgspec.json.decode(text, type=GroupConfig)

    def unlearn(self, names: Iterable[str]) -> None:
        """Forgets groups that were deleted."""
        for name in names:
            self._groups.pop(name, None)

    def learn_forbidden(self, text: str) -> None:
        """Takes which groups must not read which topics, as JSON."""
        self.forbidden = msgspec.json.decode(text)

    def _make(self, new: list[GroupConfig]) -> None:
        """Keeps nothing: the leader creates groups."""


class ReplicaOffsets(ConsumerOffsets):
    """The committed offsets of a leader, as a follower knows them."""

    def learn(self, rows: Iterable[OffsetRow]) -> None:
        """Takes offsets that were committed: (group, topic, queue id, offset) rows."""
        for group, topic, queue_id, offset in rows:
            self._offsets.setdefault((group, topic), {})[queue_id] = offset

    def unlearn(self, group: str) -> None:
        """Forgets a group that was deleted."""
        for key in [key for key in self._offsets if key[0] == group]:
            del self._offsets[key]

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Takes nothing: only the leader keeps what groups commit."""
        return False
