"""Which member consumes which queues, and how: 400 to 402
(`broker/processor/QueryAssignmentProcessor`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.groups.clients import ConsumerTable
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.request_modes import RequestModes
from pocketmq.broker.refusals import no_permission
from pocketmq.broker.registration.routes import TopicRoutes
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.clients import BROADCASTING
from pocketmq.protocol.bodies.popping import (
    POP,
    PULL,
    AssignedQueue,
    AssignedQueues,
    Assignment,
    RequestMode,
)
from pocketmq.protocol.bodies.popping import RequestModes as RequestModesBody
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.flags import is_readable
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.popping import ALL_QUEUES
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

DEFAULT_STRATEGY = "AVG"
CIRCLE_STRATEGY = "AVG_BY_CIRCLE"

Shares = Callable[[Sequence[QueueKey], int, int], Sequence[QueueKey]]
"""(all queues, place of the member, number of members) → the member's queues."""


class AssignmentSettings(msgspec.Struct, frozen=True):
    """The settings of assignments.

    Attributes:
        mode: PULL or POP, of groups of which nobody has said it.
        share_queue_num: of how many other members each pops the queues, too.
    """

    mode: str
    share_queue_num: int

    @classmethod
    def of(cls, config: BrokerConfig) -> AssignmentSettings:
        """The part of a broker's settings that assignments depend on."""
        return cls(
            mode=config.default_message_request_mode,
            share_queue_num=config.default_pop_share_queue_num,
        )


class AssignmentHandlers:
    """Tells members of groups which queues they consume, and how.

    Args:
        topics, groups, consumers: of the broker.
        modes: that somebody has set.
        routes: know the queues of all brokers.
        settings: of the broker.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        consumers: ConsumerTable,
        modes: RequestModes,
        routes: TopicRoutes,
        settings: Live[AssignmentSettings],
    ) -> None:
        self._topics, self._groups, self._consumers = topics, groups, consumers
        self._modes, self._routes, self._settings = modes, routes, settings

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_modes,
        }

    async def query(self, command: Command, _: Connection) -> Command:
        """400. Without an answer for a member, the body has no assignments: it keeps its queues."""
        request = Assignment.of_request(command.body)
        topic, group = request.topic, request.consumer_group
        shares = _STRATEGIES.get(request.strategy_name or DEFAULT_STRATEGY)
        members = self._consumers.get(group)
        route = await self._routes.find(topic)
        if shares is None or members is None or route is None:
            return Command(ResponseCode.SUCCESS, body=b"{}")
        queues = [
            QueueKey(data.broker_name, queue_id, topic)
            for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
            if is_readable(data.perm)
            for queue_id in range(data.read_queue_nums)
        ]
        mode = self._mode(topic, group)
        ids = sorted({member.client_id for member in members.members.values()})
        if request.message_model == BROADCASTING:
            own: Sequence[QueueKey] = queues
        elif request.client_id not in ids:
            return Command(ResponseCode.SUCCESS, body=b"{}")
        elif mode.mode == POP:
            own = _popped(queues, ids.index(request.client_id), len(ids), mode, shares)
        else:
            own = shares(queues, ids.index(request.client_id), len(ids))
        body = AssignedQueues(
            message_queue_assignments=[
                AssignedQueue(message_queue=queue, mode=mode.mode) for queue in own
            ]
        )
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def _mode(self, topic: str, group: str) -> RequestMode:
        known = self._modes.get(topic, group)
        if known is not None:
            return known
        settings = self._settings.now
        mode = PULL if topic.startswith(names.RETRY_PREFIX) else settings.mode
        return RequestMode(
            topic=topic,
            consumer_group=group,
            mode=mode,
            pop_share_queue_num=settings.share_queue_num,
        )

    def set_mode(self, command: Command, _: Connection) -> Command:
        """401: how a group consumes a topic, from its members' next questions on."""
        mode = RequestMode.of_request(command.body)
        if mode.topic.startswith(names.RETRY_PREFIX):
            raise no_permission("retry topic is not allowed to set mode")
        if mode.topic not in self._topics:
            raise response_error(ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
        if self._groups.get(mode.consumer_group) is None:
            raise response_error(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group[{mode.consumer_group}] not exist",
            )
        if mode.mode not in (PULL, POP):
            raise response_error(
                ResponseCode.INVALID_PARAMETER, f"the mode is {mode.mode!r}: it must be PULL or POP"
            )
        self._modes.put(mode)
        return Command(ResponseCode.SUCCESS)

    def all_modes(self, _: Command, __: Connection) -> Command:
        """402: the modes that somebody has set."""
        body = RequestModesBody(message_request_mode_map=self._modes.by_topic)
        return Command(ResponseCode.SUCCESS, body=body.encode())


def _popped(
    queues: Sequence[QueueKey], place: int, count: int, mode: RequestMode, shares: Shares
) -> Sequence[QueueKey]:
    """The queues that a member pops: by default any of each broker, else those of its neighbours
    beside its own.
    """
    neighbours = mode.pop_share_queue_num
    if neighbours <= 0 or neighbours >= count - 1:
        brokers = dict.fromkeys(queue.broker_name for queue in queues)
        topic = queues[0].topic if queues else ""
        return [QueueKey(broker, ALL_QUEUES, topic) for broker in brokers]
    if count > len(queues):
        return [queues[place % len(queues)]] if queues else []
    own: dict[QueueKey, None] = {}
    for step in range(neighbours + 1):
        own.update(dict.fromkeys(shares(queues, (place + step) % count, count)))
    return list(own)


def _averagely(queues: Sequence[QueueKey], place: int, count: int) -> Sequence[QueueKey]:
    share, left_over = divmod(len(queues), count)
    start = place * share + min(place, left_over)
    return queues[start : start + share + (place < left_over)]


def _by_circle(queues: Sequence[QueueKey], place: int, count: int) -> Sequence[QueueKey]:
    return queues[place::count]


_STRATEGIES: dict[str, Shares] = {DEFAULT_STRATEGY: _averagely, CIRCLE_STRATEGY: _by_circle}
