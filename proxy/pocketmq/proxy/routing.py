"""Where queues are, and which of them a consumer reads: QueryRoute, QueryAssignment."""

from __future__ import annotations

from pocketmq.protocol.bodies.routes import QueueData, TopicRoute
from pocketmq.protocol.flags import is_readable, is_writable
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.calls import Call
from pocketmq.proxy.checks import group_of, topic_of
from pocketmq.proxy.clients import Clients
from pocketmq.proxy.messages import MIXED, TYPES
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal, ok

ALL_QUEUES = -1

QUEUES_AT_ONCE = 2_048
"""Queues that are told in one turn of the loop."""

TYPE_ATTRIBUTE = "message.type"


class Routing:
    """Answers questions about routes.

    Every broker is reached through the endpoint that the client has asked: its answer names the
    address that the client used, whatever stands between them.

    Args:
        backend: knows the routes.
        clients: who asks.
    """

    def __init__(self, backend: Backend, clients: Clients) -> None:
        self._backend, self._clients = backend, clients

    async def query_route(self, call: Call, request: pb.QueryRouteRequest) -> pb.QueryRouteResponse:
        """Tells the queues of a topic."""
        client = self._clients.of(call)
        topic = topic_of(request.topic)
        missing = client.session.missing_right(topic)
        if missing is not None:
            raise Refusal(pb.UNAUTHORIZED, missing)
        route = await self.route_of(topic)
        types = await self._types(topic)
        out = pb.QueryRouteResponse(status=ok())
        for data in route.queue_datas:
            broker = pb.Broker(name=data.broker_name, id=0, endpoints=request.endpoints)
            for queue_id, permission in enumerate(_permissions(data)):
                if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                    await self._next_turn()
                out.message_queues.add(
                    topic=request.topic,
                    id=queue_id,
                    permission=permission,
                    broker=broker,
                    accept_message_types=types,
                )
        return out

    async def _next_turn(self) -> None:
        """Lets others have their turn."""
        await self._backend.clock.machine.sleep(0)

    async def route_of(self, topic: str) -> TopicRoute:
        """Returns the route of a topic.

        Raises:
            Refusal: TOPIC_NOT_FOUND.
        """
        route = await self._backend.route(topic)
        if route is None or not route.queue_datas:
            raise Refusal(
                pb.TOPIC_NOT_FOUND,
                f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}; it "
                f"can be created with `pocketmq topic create {topic}` or mqadmin updateTopic",
            )
        return route

    async def _types(self, topic: str) -> list[pb.MessageType]:
        name = await self.type_of(topic)
        if name == MIXED:
            return [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]
        return [TYPES.get(name, pb.NORMAL)]

    async def type_of(self, topic: str) -> str:
        """Returns the type of a topic's messages; UNSPECIFIED of one that does not exist."""
        config = await self._backend.topic(topic)
        if config is None:
            return "UNSPECIFIED"
        return config.attributes.get(TYPE_ATTRIBUTE, "NORMAL")

    async def query_assignment(
        self, call: Call, request: pb.QueryAssignmentRequest
    ) -> pb.QueryAssignmentResponse:
        """Tells what a push consumer reads: every member reads all queues."""
        client = self._clients.of(call)
        topic, group = topic_of(request.topic), group_of(request.group)
        missing = client.session.missing_right(topic)
        if missing is not None:
            raise Refusal(pb.UNAUTHORIZED, missing)
        route = await self.route_of(topic)
        config = await self._backend.group(group)
        is_ordered = config is not None and config.consume_message_orderly
        out = pb.QueryAssignmentResponse(status=ok())
        for data in route.queue_datas:
            if not is_readable(data.perm) or not data.read_queue_nums:
                continue
            broker = pb.Broker(name=data.broker_name, id=0, endpoints=request.endpoints)
            ids = range(data.read_queue_nums) if is_ordered else (ALL_QUEUES,)
            for queue_id in ids:
                if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                    await self._next_turn()
                queue = pb.MessageQueue(
                    topic=request.topic, id=queue_id, permission=pb.READ, broker=broker
                )
                out.assignments.add(message_queue=queue)
        if not out.assignments:
            raise Refusal(pb.FORBIDDEN, "no readable queue")
        return out


def _permissions(data: QueueData) -> list[pb.Permission]:
    """The permissions of a broker's queues: read-only ones first, then write-only ones, then both
    (`RouteActivity#genMessageQueueFromQueueData`).
    """
    read = data.read_queue_nums if is_readable(data.perm) else 0
    write = data.write_queue_nums if is_writable(data.perm) else 0
    if not read and not write:
        return [pb.NONE] * max(data.read_queue_nums, data.write_queue_nums)
    both = min(read, write)
    return [pb.READ] * (read - both) + [pb.WRITE] * (write - both) + [pb.READ_WRITE] * both
