"""The broker as the gRPC service sees it: its own handlers at once, other brokers by remoting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from pocketmq.auth.grpc_signature import caller
from pocketmq.auth.guard import USER, Guard, note_user
from pocketmq.auth.revoking import Revoking
from pocketmq.auth.rights.policies import Action, Need, Resource, ResourceType
from pocketmq.broker.endpoint.in_process import InProcessConnection
from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.registration.routes import TopicRoutes
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.backend import AskClient
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handlers
from pocketmq.transport.errors import ConnectError
from pocketmq.transport.pool import ConnectionPool

ASK_TIMEOUT_MS = 30_000
"""How long another broker may take for an answer, beyond the time for which a pop waits."""

MASTER_ID = 0


class LocalBackend:
    """A broker, and those that its name servers know.

    Args:
        parts: of the broker.
        handlers: of the broker, for users that are known (`handlers.table.Tables.inner`).
        routes: of topics.
        pool: reaches other brokers.
        guard: knows the users; None if everybody may ask for everything.
        on_close: called when the session of a client ends.

    Attributes:
        connections: those of the clients.
    """

    def __init__(
        self,
        parts: BrokerParts,
        handlers: Handlers,
        routes: TopicRoutes,
        pool: ConnectionPool,
        guard: Guard | None,
        on_close: Callable[[Connection], object],
    ) -> None:
        self._parts, self._handlers, self._routes, self._pool = parts, handlers, routes, pool
        self._guard, self._on_close = guard, on_close
        self._own_name = parts.data.settings.now.broker_name
        self._addresses: dict[str, str] = {}
        self.connections: dict[Connection, None] = {}
        if guard is not None:
            Revoking(parts.data.users, self.connections, parts.waiting.release)

    @property
    def clock(self) -> Clock:
        """The broker's time."""
        return self._parts.clock

    async def broker_names(self) -> tuple[str, ...]:
        """Returns where clients are registered: here."""
        return (self._own_name,)

    def authenticate(self, metadata: Mapping[str, str]) -> str:
        """Returns the user who has signed a call; empty where nobody is asked.

        Raises:
            Refusal: UNAUTHORIZED, the signature is missing or wrong.
        """
        if self._guard is None:
            return ""
        try:
            return caller(metadata, self._guard.account).name
        except ContentError as e:
            raise Refusal(pb.UNAUTHORIZED, str(e)) from e

    def open(self, user: str, remote_address: str, ask_client: AskClient) -> LocalSession:
        """Begins a session of a client."""
        connection = InProcessConnection(
            self._parts.clock.machine, self._handlers, remote_address, ask_client, self._closed
        )
        if user:
            note_user(connection, user)
        self.connections[connection] = None
        return LocalSession(self, connection)

    def _closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._on_close(connection)

    async def route(self, topic: str) -> TopicRoute | None:
        """Returns where a topic's queues are; None if no broker has it.

        A broker that asks for signatures tells its own queues only: it could ask other brokers with
        the credentials of the servers, which may do more than the client.
        """
        route = await self._routes.find(topic)
        if route is not None and self._guard is not None:
            own = [data for data in route.queue_datas if data.broker_name == self._own_name]
            return msgspec.structs.replace(route, queue_datas=own)
        if route is not None:
            for broker in route.broker_datas:
                address = broker.broker_addrs.get(MASTER_ID)
                if address is not None:
                    self._addresses[broker.broker_name] = address
        return route

    async def topic(self, name: str) -> TopicConfig | None:
        """Returns a topic's settings here; None if it does not exist."""
        return self._parts.data.topics.get(name)

    async def group(self, name: str) -> GroupConfig | None:
        """Returns a group's settings here; None if it does not exist and is not made on its use."""
        data = self._parts.data
        known = data.groups.get(name)
        if known is None and data.settings.now.auto_create_subscription_group:
            return GroupConfig(group_name=name)
        return known

    def release(self) -> None:
        """Answers what is held for clients: the broker stops."""
        for connection in list(self.connections):
            self._parts.waiting.release(connection)

    def ask(
        self, connection: InProcessConnection, broker_name: str, command: Command
    ) -> Awaitable[Command]:
        """Asks this broker, or another one, in a client's name."""
        if broker_name == self._own_name:
            return connection.ask(command)
        return self._ask_other(broker_name, command)

    async def _ask_other(self, broker_name: str, command: Command) -> Command:
        address = None if self._guard is not None else self._addresses.get(broker_name)
        if address is None:
            raise Refusal(
                pb.INVALID_RECEIPT_HANDLE, f"cannot find broker {broker_name:.100}: is it running?"
            )
        try:
            other = await self._pool.get(address)
        except ConnectError as e:
            raise Refusal(pb.PROXY_TIMEOUT, f"broker {broker_name} cannot be reached: {e}") from e
        return await other.call(command, ASK_TIMEOUT_MS)

    def missing_right(self, connection: Connection, topic: str) -> str | None:
        """Says why a client may neither send to a topic nor consume it; None if it may."""
        if self._guard is None:
            return None
        resource = Resource(ResourceType.TOPIC, topic)
        need = Need(resource, frozenset({Action.PUB, Action.SUB}))
        source_ip = connection.remote_address.rpartition(":")[0].strip("[]")
        return self._guard.missing(connection.attributes[USER], [need], source_ip)


class LocalSession:
    """A client of the endpoint, as the broker's handlers see it.

    Args:
        backend: the broker.
        connection: in the client's name.
    """

    def __init__(self, backend: LocalBackend, connection: InProcessConnection) -> None:
        self._backend, self._connection = backend, connection

    @property
    def user(self) -> str:
        """Whom the broker takes the client for."""
        user: str = self._connection.attributes.get(USER, "")
        return user

    def ask(self, broker_name: str, command: Command) -> Awaitable[Command]:
        """Gives a request to a broker, and returns the answer.

        Raises:
            OperatingError, Refusal: the broker cannot be asked.
        """
        return self._backend.ask(self._connection, broker_name, command)

    @property
    def is_open(self) -> bool:
        """Whether the broker has not ended it."""
        return not self._connection.is_closing

    def missing_right(self, topic: str) -> str | None:
        """Says why the client may neither send to a topic nor consume it; None if it may."""
        return self._backend.missing_right(self._connection, topic)

    def close(self, reason: str) -> None:
        """Ends the session."""
        self._connection.close(reason)
