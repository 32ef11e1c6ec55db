"""Removes old and left-over data on request: 27, 306, 316, 329; 908 is for slaves only."""

from __future__ import annotations

import logging

from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.brokers import ResetMasterFlushOffsetRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import in_slices
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.broker")

DELETED_PER_TURN = 1
"""Topics that are deleted between two turns of the loop: each waits for the disk."""


class CleaningHandlers:
    """Removes data on request, besides the rounds of every cleanResourceInterval.

    Args:
        topics, store: of the broker.
        retention: removes what is too old.
        system_names: topics that are never left over.
    """

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        clock: Clock,
        retention: Retention,
        system_names: frozenset[str],
    ) -> None:
        self._topics, self._store, self._clock = topics, store, clock
        self._retention, self._system_names = retention, system_names

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.TRIGGER_DELETE_FILES: self.remove_expired,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.remove_expired,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.remove_expired,
            RequestCode.CLEAN_UNUSED_TOPIC: self.remove_unused_topics,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.reset_master_flush_offset,
        }

    async def remove_expired(self, _: Command, connection: Connection) -> Command:
        """27, 306, 329: one round of retention; a queue's index goes with its messages."""
        removed = await self._retention.run()
        log.info("%s had expired segments removed: %d", connection.remote_address, removed)
        return Command(ResponseCode.SUCCESS)

    async def remove_unused_topics(self, _: Command, connection: Connection) -> Command:
        """316: the logs of topics that the broker does not know."""
        unused = {topic for topic in self._store.topics() if topic not in self._topics}
        left = sorted(unused - self._system_names)
        async for topic in in_slices(self._clock, left, DELETED_PER_TURN):
            if topic in self._topics:  # meanwhile
                continue
            log.warning("%s had the messages of %s removed, which is no topic any more",
                        connection.remote_address, topic)  # fmt: skip
            await self._store.delete_topic(topic)
        return Command(ResponseCode.SUCCESS)

    def reset_master_flush_offset(self, command: Command, _: Connection) -> Command:
        """908: of no consequence to a master, as in RocketMQ."""
        command.read(ResetMasterFlushOffsetRequest)
        return Command(ResponseCode.SUCCESS)
