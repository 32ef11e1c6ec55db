"""Forgets consumer groups that were made on their first use and did nothing since.

A name that somebody mistyped, or invented, must not stay for ever. Such a group is made again on
its next use, as it was: nothing is lost with it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pocketmq.broker.groups.clients import ConsumerTable
from pocketmq.broker.parts import BrokerState
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.protocol.names.names import retry_topic
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import in_slices

GROUPS_PER_SLICE = 200
"""Groups that one slice examines and forgets: a few milliseconds."""

log = logging.getLogger("pocketmq.broker")


class IdleGroups:
    """Finds provisional groups that are idle, and forgets them.

    Args:
        data: the groups, and what is known of them.
        consumers: groups with living members stay.
        progress: what they have pulled.
        clock: for the turns of others.
    """

    def __init__(
        self, data: BrokerState, consumers: ConsumerTable, progress: PullProgress, clock: Clock
    ) -> None:
        self._data, self._consumers, self._progress = data, consumers, progress
        self._clock = clock
        self._pulled: dict[str, int] = {}

    async def forget(self) -> None:
        """Forgets the provisional groups that were there at the last call and did nothing since.

        Those with offsets or retries are kept for good.
        """
        groups = self._data.groups
        found = list(groups.provisional)
        if not found or not self._data.settings.now.auto_create_subscription_group:
            return  # without that setting their next use would not make them again
        committed = self._data.offsets.groups()
        messages = self._progress.messages_by_group()
        before, self._pulled = self._pulled, {name: messages.get(name, 0) for name in found}
        idle: set[str] = set()
        starts = range(0, len(found), GROUPS_PER_SLICE)
        async for start in in_slices(self._clock, starts, 1):
            part = found[start : start + GROUPS_PER_SLICE]
            groups.confirm(name for name in part if name in committed or self._has_retries(name))
            idle.update(self._removed(n for n in part if before.get(n) == self._pulled[n]))
        self._progress.remove_groups(idle)

    def _has_retries(self, group: str) -> bool:
        return bool(self._data.store.logs.queue_ids(retry_topic(group)))

    def _removed(self, names: Iterable[str]) -> list[str]:
        """Forgets those of the groups that are idle now, and returns them."""
        groups, topics = self._data.groups, self._data.topics
        idle = [
            name
            for name in names
            if name in groups.provisional
            and self._consumers.get(name) is None
            and not self._data.order_locks.holds_any(name)
        ]
        if idle:
            log.info("forgetting %d idle groups: %s, …", len(idle), idle[0])
            topics.remove_all([topic for name in idle if (topic := retry_topic(name)) in topics])
            groups.remove(*idle)
        return idle
