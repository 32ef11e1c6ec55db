"""Name servers and brokers that answer as a test says: real servers with small handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from support.peers.transport import until

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.bodies.clients import ConsumerIdList, Heartbeat
from pocketmq.protocol.bodies.routes import BrokerData, QueueData, TopicRoute
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.offsets import OffsetResponse
from pocketmq.protocol.requests.pulling import PullMessageRequest, PullMessageResponse
from pocketmq.protocol.requests.sending import SendMessageResponse, SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import Header, NoFields
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Reply
from pocketmq.transport.server import Server

T = TypeVar("T")
Answer = Callable[[Command, Connection], Reply]

RW = 6


async def done(coroutine: Awaitable[T]) -> T:
    """Lets something awaitable run to its end without moving the clock."""
    task = asyncio.ensure_future(coroutine)
    await until(task.done)
    return task.result()


def ok(header: Header | None = None, body: bytes = b"") -> Command:
    """A successful answer."""
    return Command(ResponseCode.SUCCESS, header=header or NoFields(), body=body)


def code(value: int, remark: str = "no") -> Answer:
    """Always answers with a code."""
    return lambda request, connection: Command(value, remark=remark)


def silent(request: Command, connection: Connection) -> None:
    """Never answers."""


def hang_up(request: Command, connection: Connection) -> None:
    """Closes the connection instead of an answer."""
    connection.abort("the test says so")


def stored(request: Command, connection: Connection, *, status: int = 0) -> Command:
    """Answers a send as if the message was stored at offset 7."""
    queue_id = request.read(SendMessageV2Request).queue_id
    header = SendMessageResponse(
        msg_id="AA", queue_id=queue_id, queue_offset=7, transaction_id="TT", region="R"
    )
    return Command(status, header=header)


class Peer:
    """A server that notes what it is asked."""

    def __init__(self, clock: VirtualClock, answers: dict[int, Answer]) -> None:
        self.requests: list[Command] = []
        self.answers = answers
        self.server = Server(clock, dict.fromkeys(RequestCode, self._handle))

    def _handle(self, request: Command, connection: Connection) -> Reply:
        self.requests.append(request)
        answer = self.answers.get(request.code)
        if answer is None:
            return Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"{request.code}")
        return answer(request, connection)

    @property
    def address(self) -> str:
        return self.server.address

    def count(self, request_code: int) -> int:
        """How often it was asked for something."""
        return sum(r.code == request_code for r in self.requests)

    def last(self, request_code: int) -> Command:
        """The last request of a kind."""
        return next(r for r in reversed(self.requests) if r.code == request_code)


class Cluster:
    """Name servers that all know the same routes, brokers, and a client instance.

    Use `add_namesrv` and `add_broker` first, then `client`.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.routes: dict[str, TopicRoute] = {}
        self.namesrvs: list[Peer] = []
        self.brokers: dict[str, Peer] = {}
        self.members: list[str] = []
        self._instances: list[ClientInstance] = []

    async def add_namesrv(self) -> Peer:
        peer = Peer(self.clock, {RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route})
        await peer.server.listen("127.0.0.1", 0)
        self.namesrvs.append(peer)
        return peer

    async def add_broker(self, name: str) -> Peer:
        peer = Peer(
            self.clock,
            {
                RequestCode.SEND_MESSAGE_V2: stored,
                RequestCode.SEND_BATCH_MESSAGE: stored,
                RequestCode.HEART_BEAT: self._heartbeat,
                RequestCode.UNREGISTER_CLIENT: lambda request, connection: ok(),
                RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
                RequestCode.QUERY_CONSUMER_OFFSET: code(ResponseCode.QUERY_NOT_FOUND),
                RequestCode.UPDATE_CONSUMER_OFFSET: lambda request, connection: ok(),
                RequestCode.GET_MAX_OFFSET: offset(0),
                RequestCode.GET_MIN_OFFSET: offset(0),
                RequestCode.PULL_MESSAGE: silent,
            },
        )
        await peer.server.listen("127.0.0.1", 0)
        self.brokers[name] = peer
        return peer

    def topic(self, topic: str, *brokers: str, queues: int = 2, perm: int = RW) -> TopicRoute:
        """Puts a topic on brokers, of which some may be without an address: they are down."""
        route = TopicRoute(
            queue_datas=[
                QueueData(
                    broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm
                )
                for name in brokers
            ],
            broker_datas=[
                BrokerData(
                    cluster="C",
                    broker_name=name,
                    broker_addrs={0: self.brokers[name].address} if name in self.brokers else {},
                )
                for name in brokers
            ],
        )
        self.routes[topic] = route
        return route

    def client(self, seed: int = 1, **settings: Any) -> ClientInstance:
        """A client of the cluster; start it, it is closed with the cluster."""
        instance = ClientInstance(
            [n.address for n in self.namesrvs], clock=self.clock, random=Random(seed), **settings
        )
        self._instances.append(instance)
        return instance

    async def close(self) -> None:
        for instance in self._instances:
            await done(instance.close())
        for peer in (*self.namesrvs, *self.brokers.values()):
            await done(peer.server.close())

    def _route(self, request: Command, connection: Connection) -> Command:
        topic = request.read(RouteRequest).topic
        route = self.routes.get(topic)
        if route is None:
            return Command(ResponseCode.TOPIC_NOT_EXIST, remark=f"No topic route info: {topic}")
        return ok(body=route.encode(quote_keys=True))

    def _heartbeat(self, request: Command, connection: Connection) -> Command:
        client_id = Heartbeat.decode(request.body).client_id
        if Heartbeat.decode(request.body).consumer_data_set and client_id not in self.members:
            self.members.append(client_id)
        return ok()

    def _members(self, request: Command, connection: Connection) -> Command:
        return ok(body=ConsumerIdList(consumer_id_list=self.members).encode())


def offset(value: int) -> Answer:
    """Answers with a queue offset."""
    return lambda request, connection: ok(OffsetResponse(offset=value))


def pulled(
    status: int,
    body: bytes = b"",
    *,
    next_offset: int,
    low: int = 0,
    high: int = 0,
    broker: int = 0,
) -> Command:
    """The answer to a pull."""
    header = PullMessageResponse(
        suggest_which_broker_id=broker,
        next_begin_offset=next_offset,
        min_offset=low,
        max_offset=high,
    )
    return Command(status, header=header, body=body)


class Log:
    """The queues of a scripted broker: pulls are served from it, or held until more is added."""

    def __init__(self) -> None:
        self.records: dict[int, list[bytes]] = {}
        self._held: list[tuple[Command, Connection, int]] = []

    def add(self, queue_id: int, *records: bytes) -> None:
        """Appends records and answers the pulls that wait for them."""
        self.records.setdefault(queue_id, []).extend(records)
        held, self._held = self._held, []
        for request, connection, _ in held:
            answer = self.pull(request, connection)
            if answer is not None:
                connection.respond(request, answer)

    def pull(self, request: Command, connection: Connection) -> Command | None:
        """Answers a pull."""
        header = request.read(PullMessageRequest)
        records = self.records.get(header.queue_id, [])
        found = records[header.queue_offset : header.queue_offset + header.max_msg_nums]
        if not found:
            self._held.append((request, connection, header.queue_id))
            return None
        next_offset = header.queue_offset + len(found)
        return pulled(0, b"".join(found), next_offset=next_offset, high=len(records))
