"""The cluster as a proxy sees it: name servers, and brokers by remoting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import msgspec

from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.requests.popping import PopMessageRequest
from pocketmq.protocol.requests.topics import GroupConfigRequest, TopicConfigRequest
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.proxy.backend import AskClient
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.standalone.name_servers import NameServers
from pocketmq.proxy.standalone.unseen_pops import give_back_unseen
from pocketmq.proxy.standalone.users import ClusterUsers
from pocketmq.proxy.statuses import Refusal
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import BeforeRequest, Connection, Handler
from pocketmq.transport.errors import ConnectError
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.settings import ClientTls

ASK_TIMEOUT_MS = 30_000
"""How long a broker may take for an answer, the time for which a pop waits within."""

CONFIG_TIMEOUT_MS = 3_000
CONFIG_AGE_MAX_S = 10.0
"""Settings of topics and groups are asked for again when they are older."""

CONFIGS_MAX = 10_000
"""Settings that are remembered; beyond them all are forgotten."""

ValueT = TypeVar("ValueT")


class RemoteBackend:
    """A cluster behind a proxy. Each client has connections of its own to its brokers.

    So brokers know clients as if they spoke remoting: they ask them about transactions, and learn
    that they are gone by the end of the connection, whatever was held for them.

    Attributes:
        name_servers: know where topics and brokers are.
        users: see below.
        tasks: what goes on when its client is gone.

    Args:
        name_servers: see the attribute.
        pool: asks brokers in the proxy's own name.
        clock: says when messages were popped.
        users: know who calls, and sign in their names; None if nobody is asked.
        before_request: signs requests where nobody is asked.
        tls: how to speak TLS to brokers; None for plain connections.
    """

    def __init__(
        self,
        name_servers: NameServers,
        pool: ConnectionPool,
        clock: Clock,
        users: ClusterUsers | None,
        before_request: tuple[BeforeRequest, ...],
        tls: ClientTls | None,
    ) -> None:
        self.name_servers, self.users, self._pool = name_servers, users, pool
        self._clock, self._before_request, self._tls = clock, before_request, tls
        self._configs: dict[tuple[type, str], tuple[object, float]] = {}
        self._pools: set[ConnectionPool] = set()
        self.tasks = Tasks()

    @property
    def clock(self) -> Clock:
        """The machine's time."""
        return self._clock

    async def broker_names(self) -> tuple[str, ...]:
        """Returns the brokers that were told of: clients are registered there.

        Raises:
            Refusal: PROXY_TIMEOUT, no name server answers.
        """
        if not self.name_servers.masters:
            try:
                await self.name_servers.learn_brokers()
            except OperatingError as e:
                raise Refusal(pb.PROXY_TIMEOUT, f"no name server answers: {e}") from e
        return tuple(sorted(self.name_servers.masters))

    def authenticate(self, metadata: Mapping[str, str]) -> str:
        """Returns the user who has signed a call; empty where nobody is asked.

        Raises:
            Refusal: UNAUTHORIZED; PROXY_TIMEOUT, no broker has told its users yet.
        """
        return "" if self.users is None else self.users.authenticate(metadata)

    def open(self, user: str, remote_address: str, ask_client: AskClient) -> RemoteSession:
        """Begins a session of a client."""
        return RemoteSession(self, user, remote_address, ask_client)

    def new_pool(self, user: str, handlers: dict[int, Handler]) -> ConnectionPool:
        """Connections of one client."""
        signing = self._before_request
        if self.users is not None:
            signing = (partial(self.users.sign, user=user),)
        pool = ConnectionPool(self._clock, handlers, before_request=signing, tls=self._tls)
        self._pools.add(pool)
        return pool

    def close_later(self, pool: ConnectionPool) -> None:
        """Closes the connections of a client that is gone."""
        self.tasks.spawn(self._close(pool), "close a client's connections")

    async def _close(self, pool: ConnectionPool) -> None:
        await pool.close()
        self._pools.discard(pool)

    async def route(self, topic: str) -> TopicRoute | None:
        """Returns where a topic's queues are; None if no broker has it.

        Raises:
            Refusal: PROXY_TIMEOUT, no name server answers.
        """
        try:
            return await self.name_servers.route(topic)
        except OperatingError as e:
            raise Refusal(pb.PROXY_TIMEOUT, f"no name server answers: {e}") from e

    async def topic(self, name: str) -> TopicConfig | None:
        """Returns a topic's settings; None if it does not exist."""

        async def ask() -> TopicConfig | None:
            route = await self.route(name)
            brokers = [] if route is None else [d.broker_name for d in route.queue_datas]
            answer = await self._ask_one(brokers, TopicConfigRequest(topic=name))
            return None if answer is None else TopicConfig.decode(answer.body)

        return await self._remembered((TopicConfig, name), ask)

    async def group(self, name: str) -> GroupConfig | None:
        """Returns a group's settings; None if it does not exist and is not made on its use."""

        async def ask() -> GroupConfig | None:
            answer = await self._ask_one(await self.broker_names(), GroupConfigRequest(group=name))
            return None if answer is None else GroupConfig.decode(answer.body)

        return await self._remembered((GroupConfig, name), ask)

    async def _remembered(
        self, key: tuple[type[ValueT], str], ask: Callable[[], Awaitable[ValueT | None]]
    ) -> ValueT | None:
        now_s = self._clock.machine.monotonic()
        known = self._configs.get(key)
        if known is not None and now_s - known[1] < CONFIG_AGE_MAX_S:
            found = known[0]
            assert found is None or isinstance(found, key[0])
            return found
        value = await ask()
        if len(self._configs) >= CONFIGS_MAX:
            self._configs.clear()
        if value is not None:  # what does not exist may be made at any time
            self._configs[key] = value, now_s
        return value

    async def _ask_one(
        self, broker_names: tuple[str, ...] | list[str], request: RequestHeader
    ) -> Command | None:
        """The answer of the first broker that knows; None if all say that there is no such thing.

        Raises:
            Refusal: PROXY_TIMEOUT, none of them answers.
        """
        failure: OperatingError | None = None
        for name in broker_names:
            try:
                address = await self.address_of(name)
                return await self._pool.ask(address, request, CONFIG_TIMEOUT_MS)
            except ResponseError as e:
                if e.code not in _MISSING:
                    failure = e
            except OperatingError as e:
                failure = e
        if failure is not None:
            raise Refusal(pb.PROXY_TIMEOUT, f"no broker answers: {failure}") from failure
        return None

    async def address_of(self, broker_name: str) -> str:
        """Returns the address of a broker.

        Raises:
            OperatingError: no name server answers.
            Refusal: INVALID_RECEIPT_HANDLE, there is no such broker.
        """
        address = await self.name_servers.master(broker_name)
        if address is None:
            raise Refusal(
                pb.INVALID_RECEIPT_HANDLE, f"cannot find broker {broker_name:.100}: is it running?"
            )
        return address

    def broker_at(self, address: str) -> str:
        """Returns the name of the broker at an address; empty if there is none."""
        masters = self.name_servers.masters.items()
        return next((name for name, known in masters if known == address), "")

    async def close(self) -> None:
        """Closes the connections of all clients."""
        await self.tasks.close()
        await asyncio.gather(*(pool.close() for pool in self._pools))
        self._pools.clear()


class RemoteSession:
    """A client of the proxy, as brokers see it.

    Args:
        backend: knows the brokers.
        user: who has signed; empty where nobody is asked.
        remote_address: of the client.
        ask_client: takes what brokers ask the client.

    Attributes:
        user: see above.
    """

    def __init__(
        self, backend: RemoteBackend, user: str, remote_address: str, ask_client: AskClient
    ) -> None:
        self._backend, self._ask_client = backend, ask_client
        self._remote_address = remote_address
        self._pool: ConnectionPool | None = None
        self._is_closed = False
        self.user = user

    async def ask(self, broker_name: str, command: Command) -> Command:
        """Gives a request to a broker, and returns the answer, whatever its code.

        Raises:
            OperatingError, Refusal: the broker cannot be asked.
        """
        if self._is_closed:
            raise Refusal(pb.PROXY_TIMEOUT, "the client's session has ended")
        address = await self._backend.address_of(broker_name)
        if self._pool is None:
            self._pool = self._backend.new_pool(
                self.user,
                {
                    RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
                    RequestCode.CONSUME_MESSAGE_DIRECTLY: self._asked,
                    RequestCode.GET_CONSUMER_RUNNING_INFO: self._asked,
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: _nothing,
                },
            )
        try:
            connection = await self._pool.get(address)
        except ConnectError as e:
            raise Refusal(pb.PROXY_TIMEOUT, f"broker {broker_name} cannot be reached: {e}") from e
        calling = asyncio.ensure_future(connection.call(command, ASK_TIMEOUT_MS))
        try:
            return await asyncio.shield(calling)
        except asyncio.CancelledError:
            if isinstance(command.header, PopMessageRequest):
                unseen = give_back_unseen(calling, command.header, broker_name, connection)
                self._backend.tasks.spawn(unseen, "give back a pop")
            else:
                calling.cancel()
            raise

    async def _asked(self, command: Command, _: Connection) -> Command | None:
        asked = self._ask_client(command)
        return None if asked is None else await asked

    async def _check_transaction(self, command: Command, connection: Connection) -> None:
        header = command.read(CheckTransactionStateRequest)
        if not header.broker_name:  # Apache's brokers leave it out
            name = self._backend.broker_at(connection.attributes.get("address", ""))
            header = msgspec.structs.replace(header, broker_name=name)
        command.header, command.raw = header, None
        await self._asked(command, connection)

    @property
    def is_open(self) -> bool:
        """Whether it was not closed: connections that are lost are dialled again."""
        return not self._is_closed

    def missing_right(self, topic: str) -> str | None:
        """Says why the client may neither send to a topic nor consume it; None if it may.

        Where nobody is asked brokers refuse what the proxy's user may not.
        """
        users = self._backend.users
        if users is None:
            return None
        return users.missing_right(self.user, topic, self._remote_address)

    def close(self, reason: str) -> None:
        """Ends the session: brokers forget the client."""
        self._is_closed = True
        if self._pool is not None:
            self._backend.close_later(self._pool)


_MISSING = (
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
)


def _nothing(_: Command, __: Connection) -> None:
    """Takes a notice that concerns nobody: members that pop have no queues."""
