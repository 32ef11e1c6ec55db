"""Commits the offsets of a stream's consumer group, which tools show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from pocketmq.client.admin import Admin
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.errors import (
    GroupMissingError,
    NotFoundError,
    OperatingError,
    TopicMissingError,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import retry_topic
from pocketmq.spark import topics
from pocketmq.spark.streaming.offsets import Offsets

log = logging.getLogger("pocketmq.spark")


class StreamGroup:
    """Keeps the offsets of a stream in the brokers, as those of a consumer group, for tools.

    The query itself goes by its checkpoint: what cannot be committed now is committed with the next
    batch.

    Args:
        instance: running.
        group: its name; it is created where it is unknown.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance, self._group = instance, group
        self._offsets = QueueOffsets(instance.pool, instance.routes, topics.CALL_TIMEOUT_MS)
        self._admin = Admin(instance=instance)
        self._brokers: set[str] = set()
        self._committed: Offsets = {}

    async def make_known(self, queues: Iterable[MessageQueue]) -> None:
        """Creates the group on brokers that do not have it: they refuse its pulls otherwise."""
        one_each = {q.broker_name: q for q in queues}
        for broker_name in sorted(one_each.keys() - self._brokers):
            try:
                await self._create(one_each[broker_name])
            except OperatingError as e:
                log.warning("group %s cannot be created on %s: %s", self._group, broker_name, e)
            else:
                self._brokers.add(broker_name)

    async def _create(self, queue: MessageQueue) -> None:
        address = await self._instance.routes.master_of(queue)
        try:
            config = await self._admin.group_config(self._group, address)
        except (GroupMissingError, NotFoundError):
            config = GroupConfig(group_name=self._group)
            await self._admin.create_group(config, broker_addr=address)
        # mqadmin finds the brokers of a group by the route of this topic, which heartbeats of
        # consumers create: a stream sends none.
        topic = retry_topic(self._group)
        try:
            await self._admin.topic_config(topic, address)
        except TopicMissingError:
            queues = max(1, config.retry_queue_nums)
            await self._admin.create_topic(topic, queues, broker_addr=address)

    async def commit(self, offsets: Offsets) -> None:
        """Commits the offsets that have changed since the last commit."""
        changed = [(q, o) for q, o in offsets.items() if self._committed.get(q) != o]
        outcomes = await asyncio.gather(
            *(self._offsets.commit(self._group, q, o) for q, o in changed), return_exceptions=True
        )
        failed: list[BaseException] = []
        for (queue, offset), outcome in zip(changed, outcomes, strict=True):
            if outcome is None:
                self._committed[queue] = offset
            elif isinstance(outcome, OperatingError):
                failed.append(outcome)
                if isinstance(outcome, GroupMissingError):
                    self._brokers.discard(queue.broker_name)
            else:
                raise outcome
        if failed:
            log.warning(
                "%d of %d offsets of group %s could not be committed, they will be with the next "
                "batch: %s", len(failed), len(changed), self._group, failed[0],
            )  # fmt: skip
