"""How far a group is in the queues of its topics, also where it has not committed that yet."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from pocketmq.broker import Broker
from pocketmq.broker.groups.client_calls import ClientCalls
from pocketmq.broker.reading.filters import EVERYTHING, Selection, selection_of
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.protocol.bodies.groups import RunningInfo
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, ResponseError
from pocketmq.protocol.requests.groups import RunningInfoRequest
from pocketmq.testing.core import Core

log = logging.getLogger("pocketmq.testing")

READ_SIZE = 64 * 1024


class _Queue(NamedTuple):
    broker: str
    topic: str
    queue_id: int


class Progress:
    """Knows more of a group's progress than the offsets that it has committed.

    Clients commit now and then, Java's every five seconds. Meanwhile members tell what they have
    handled when they are asked for their state (307). And messages that the group's subscription
    leaves out need no handling, although nobody commits an offset behind them until the pull that
    has passed them over ends.

    Args:
        core: the cluster.
        group: the group's name on the wire.
    """

    def __init__(self, core: Core, group: str) -> None:
        self._core, self._group = core, group
        self._positions: dict[_Queue, int] = {}

    def position(self, broker: Broker, queue_log: QueueLog, committed: int | None) -> int:
        """Returns the offset of the first message that the group has still to handle.

        Args:
            broker: has the queue.
            queue_log: the messages of the queue.
            committed: the offset that the group has committed; None if it never did.
        """
        topic, queue_id = queue_log.topic, queue_log.queue_id
        queue = _Queue(broker.config.broker_name, topic, queue_id)
        offset = max(committed or 0, self._positions.get(queue, 0), queue_log.min_offset)
        selection = self._selection(broker, topic)
        if selection is EVERYTHING:
            return offset
        while offset < queue_log.max_offset:
            part = queue_log.read(offset, 1, READ_SIZE, selection.tags_codes, selection.matches)
            if part.data:
                break
            offset = self._positions[queue] = part.next_offset
        return offset

    def _selection(self, broker: Broker, topic: str) -> Selection:
        members = broker.parts.members.consumers.get(self._group)
        subscription = None if members is None else members.subscriptions.get(topic)
        if subscription is None:
            return EVERYTHING
        return selection_of(subscription.expression_type, subscription.sub_string, sql_enabled=True)

    async def ask(self) -> None:
        """Asks all members what they have handled; leaves out those that do not answer."""
        asked: dict[str, Broker] = {}
        for broker in self._core.brokers():
            members = broker.parts.members.consumers.get(self._group)
            for member in () if members is None else members.members.values():
                asked.setdefault(member.client_id, broker)
        await asyncio.gather(*(self._ask(broker, client) for client, broker in asked.items()))

    async def _ask(self, broker: Broker, client_id: str) -> None:
        calls = ClientCalls(broker.parts.members.consumers)
        request = RunningInfoRequest(consumer_group=self._group, client_id=client_id)
        try:
            answer = await calls.ask(self._group, client_id, request)
            if answer.code != ResponseCode.SUCCESS:
                raise ResponseError(answer.code, answer.remark or "")
            self._hear(RunningInfo.decode(answer.body))
        except (ResponseError, ContentError) as e:
            log.info("%s does not tell what it has handled: %s", client_id, e)

    def _hear(self, info: RunningInfo) -> None:
        for key, state in info.mq_table.items():
            if not state.droped:
                queue = _Queue(key.broker_name, key.topic, key.queue_id)
                self._positions[queue] = max(self._positions.get(queue, 0), state.commit_offset)
