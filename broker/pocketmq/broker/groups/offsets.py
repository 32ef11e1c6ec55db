"""The committed offset of each group in each queue (`broker/offset/ConsumerOffsetManager`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.broker")

OFFSET_MAX = (1 << 63) - 1

SAVED_PER_TURN_MAX = 1000
"""Offsets that one transaction saves; it takes a few milliseconds."""


def is_offset(queue_id: int, offset: int) -> bool:
    """Whether a queue and an offset fit into the fields in which they are kept."""
    return 0 <= queue_id < QUEUE_NUMS_MAX and 0 <= offset <= OFFSET_MAX


_NONE: dict[int, int] = {}


class ConsumerOffsets:
    """Committed offsets: in memory, and saved together every few seconds and at the stop.

    Args:
        metadata: where they are kept.

    Attributes:
        resets: offsets to which a group was put from outside and of which its consumer does not
            know yet, by group, topic and queue. Its next pull tells it; until then what it commits
            is of before and does not count (`ConsumerOffsetManager#assignResetOffset`).
        on_commit: told of each commit; None without followers.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.on_commit: Callable[[str, str, int, int], object] | None = None
        self._unsaved: set[tuple[str, str, int]] = set()
        self.resets: dict[tuple[str, str, int], int] = {}
        self.load()

    def load(self) -> None:
        """Reads all offsets from the metadata."""
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}
        for group, topic, queue_id, offset in self._metadata.consumer_offsets():
            self._offsets.setdefault((group, topic), {})[queue_id] = offset

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns the offset that a group committed in a queue; None if it never did."""
        queues = self._offsets.get((group, topic))
        return None if queues is None else queues.get(queue_id)

    def __iter__(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """(group, topic, offset by queue) of every group and topic."""
        return ((group, topic, queues) for (group, topic), queues in self._offsets.items())

    def pairs(self) -> list[tuple[str, str]]:
        """(group, topic) of all that have offsets now."""
        return list(self._offsets)

    def of_pair(self, pair: tuple[str, str]) -> dict[int, int]:
        """Returns the offsets of a (group, topic), by queue; not to be changed."""
        return self._offsets.get(pair, _NONE)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Commits a group's offset in a queue; False if a reset makes it void, see `resets`.

        A smaller offset than before is taken too, and logged.
        """
        if self.resets and (group, topic, queue_id) in self.resets:
            log.info("group %s was reset in %s queue %d: its commit of %d does not count", group,
                     topic, queue_id, offset)  # fmt: skip
            return False
        queues = self._offsets.setdefault((group, topic), {})
        before = queues.get(queue_id)
        if before == offset:
            return True
        if before is not None and offset < before:
            log.info(
                "group %s goes back in %s queue %d from %d to %d",
                group,
                topic,
                queue_id,
                before,
                offset,
            )
        queues[queue_id] = offset
        self._unsaved.add((group, topic, queue_id))
        if self.on_commit is not None:
            self.on_commit(group, topic, queue_id, offset)
        return True

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Sets a group's offsets in some queues, on the disk when it returns.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self._metadata.save_consumer_offsets(
            [(group, topic, queue_id, offset) for queue_id, offset in offsets.items()],
            durably=True,
        )
        self._offsets.setdefault((group, topic), {}).update(offsets)
        for queue_id, offset in offsets.items():
            self.resets[group, topic, queue_id] = offset
            self._unsaved.discard((group, topic, queue_id))

    def bring_back(
        self, end_of: Callable[[str, int], int | None], least_end_of: Callable[[str, int], int]
    ) -> None:
        """Sets offsets beyond the end of their queue to that end, on the disk when it returns.

        After a crash that took the last messages of a queue a group may have had them all. It must
        not skip those that come in their place.

        Args:
            end_of: behind the last message of a topic's queue; None if nobody knows.
            least_end_of: not behind that, but known without a look at the queue.

        Raises:
            WriteFailedError: nothing was changed.
        """
        rows = [
            (group, topic, queue_id, end)
            for group, topic, queues in self
            for queue_id, offset in queues.items()
            if offset > least_end_of(topic, queue_id)
            and (end := end_of(topic, queue_id)) is not None
            and offset > end
        ]
        self._metadata.save_consumer_offsets(rows, durably=True)
        for group, topic, queue_id, end in rows:
            log.warning("group %s goes back to the end of %s queue %d, %d: what it had consumed "
                        "behind it was lost", group, topic, queue_id, end)  # fmt: skip
            self._offsets[group, topic][queue_id] = end

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Takes the offset to which a group was reset in a queue; None if there is none to tell."""
        return self.resets.pop((group, topic, queue_id), None)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copies a group's offsets in a topic to another group, on the disk when it returns.

        Raises:
            WriteFailedError: nothing was changed.
        """
        offsets = self._offsets.get((source, topic))
        if offsets:
            self._metadata.save_consumer_offsets(
                [(target, topic, queue_id, offset) for queue_id, offset in offsets.items()],
                durably=True,
            )
            self._offsets.setdefault((target, topic), {}).update(offsets)
            self._unsaved -= {(target, topic, queue_id) for queue_id in offsets}

    def groups(self) -> set[str]:
        """Lists the groups that have committed anywhere."""
        return {group for group, _ in self._offsets}

    def topics_of(self, group: str) -> set[str]:
        """Lists the topics in which a group has committed."""
        return {topic for g, topic in self._offsets if g == group}

    def groups_of(self, topic: str) -> set[str]:
        """Lists the groups that have committed in a topic."""
        return {group for group, t in self._offsets if t == topic}

    def remove_topic(self, topic: str) -> None:
        """Forgets every group's offsets in a topic."""
        for key in [key for key in self._offsets if key[1] == topic]:
            del self._offsets[key]
        self._unsaved = {entry for entry in self._unsaved if entry[1] != topic}
        self.resets = {entry: o for entry, o in self.resets.items() if entry[1] != topic}

    def remove_group(self, group: str) -> None:
        """Forgets a group's offsets in all topics."""
        for key in [key for key in self._offsets if key[0] == group]:
            del self._offsets[key]
        self._unsaved = {entry for entry in self._unsaved if entry[0] != group}
        self.resets = {entry: o for entry, o in self.resets.items() if entry[0] != group}
        self._metadata.remove_consumer_offsets(group)

    def save(self) -> None:
        """Writes what changed since the last time, in one transaction."""
        self._save(list(self._unsaved))

    async def save_in_slices(self, clock: Clock) -> None:
        """Writes the same in slices, between which sends and pulls are handled."""
        unsaved = list(self._unsaved)
        for start in range(0, len(unsaved), SAVED_PER_TURN_MAX):
            part = unsaved[start : start + SAVED_PER_TURN_MAX]
            self._save([entry for entry in part if entry in self._unsaved])
            await clock.sleep(0)

    def _save(self, entries: list[tuple[str, str, int]]) -> None:
        self._metadata.save_consumer_offsets(
            [
                (group, topic, queue_id, self._offsets[group, topic][queue_id])
                for group, topic, queue_id in entries
            ]
        )
        self._unsaved.difference_update(entries)
