"""Registers a broker with all name servers: at the start, when topics change, and every 30 s.

Each new connection begins with all topics; later registrations bring only the changed ones
(`BrokerController#registerIncrementBrokerData`), and PocketMQ's name servers the names of removed
ones; Apache's get all topics then. Every 30 s the broker asks each name server for
the version it knows, and sends all topics again if that differs from its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.registration.telling import UserTelling
from pocketmq.broker.topics.topics import ChangedTopics, TopicTable
from pocketmq.protocol.bodies.routes import QueueData, TopicRoute
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import PocketMQError, ResponseError, response_error
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.requests.nameserver import (
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterTopicRequest,
    TellUsersRequest,
    UnregisterBrokerRequest,
)
from pocketmq.protocol.wire import loose_json
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.live import Live
from pocketmq.runtime.slices import encoded_in_slices
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import BeforeRequest, Connection
from pocketmq.transport.errors import CallTimeoutError
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.settings import client_tls

log = logging.getLogger("pocketmq.broker")

_RW = PERM_READ | PERM_WRITE

UNREGISTER_TIMEOUT_MS = 3000

RECONNECT_DELAY_S = 0.5
"""How soon a name server that went away is looked for; the pause doubles up to the period."""


def name_server_list(text: str) -> list[str]:
    """Splits a list of addresses such as ``host1:9876;host2:9876``."""
    return [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]


class _Known(NamedTuple):
    """The version of the topics that a name server knows, valid for one connection.

    Another connection may lead to a name server that was started anew and knows nothing.
    """

    connection: Connection
    version: DataVersion


class Registration:
    """Registers one broker with every name server; one that does not answer holds up no other.

    Args:
        settings: the broker's.
        address: the address that clients use, ``host:port``.
        topics: what is registered.
        clock: for time limits.
        before_request: called with each request before it is encoded, as of `ConnectionPool`.
        telling: has the users that name servers are told; None if they need none.
    """

    def __init__(
        self,
        settings: Live[BrokerConfig],
        address: str,
        topics: TopicTable,
        clock: Clock,
        *,
        before_request: tuple[BeforeRequest, ...] = (),
        telling: UserTelling | None = None,
    ) -> None:
        self._settings, self._address = settings, address
        # Name servers know each topic's permission within the broker's: see `_registered`.
        permission = settings.view(lambda config: config.broker_permission)
        permission.follow(lambda _: topics.renew_version())
        self._topics, self._clock = topics, clock
        self._servers = name_server_list(settings.now.namesrv_addr)
        self._pool = ConnectionPool(
            clock,
            on_close=self._disconnected,
            before_request=before_request,
            tls=client_tls(settings.now),
        )
        self._telling = telling
        self._reachable: dict[str, bool] = {}
        self._known: dict[str, _Known] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._requested = asyncio.Event()
        self._advertise = settings.now.advertise_text or None
        self._is_leaving = False
        self._reconnecting: set[str] = set()
        self._tasks = Tasks()

    @property
    def servers(self) -> list[str]:
        """The name servers."""
        return self._servers

    def request(self) -> None:
        """Asks for a registration, which starts in the next iteration of the loop."""
        self._requested.set()

    async def register_on_request(self) -> None:
        """Registers each time that `request` was called, forever."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            await self.register()

    async def register(self) -> int:
        """Sends each name server the topics it lacks; returns how many know all topics now."""
        return sum(await asyncio.gather(*map(self._register_with, self._servers)))

    async def advertise(self, rules: str) -> None:
        """Changes the rules by which name servers choose the address that they tell a caller.

        Args:
            rules: as `BrokerConfig.advertise_text`; empty for the registered address.
        """
        self._advertise = rules or None
        self._known.clear()
        await self.register()

    def _registration(self, *, is_partial: bool) -> RegisterBrokerRequest:
        return RegisterBrokerRequest(
            broker_name=self._settings.now.broker_name,
            broker_addr=self._address,
            cluster_name=self._settings.now.broker_cluster_name,
            broker_id=self._settings.now.broker_id,
            advertise=self._advertise,
            partial=is_partial or None,
        )

    async def _body(self, topics: Iterable[TopicConfig], removed: list[str] | None) -> bytes:
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigTable(
                topic_config_table={t.topic_name: self._registered(t) for t in topics},
                data_version=self._topics.version,
            ),
            removed_topics=removed or None,
        )
        return await encoded_in_slices(self._clock, body)

    def _registered(self, topic: TopicConfig) -> TopicConfig:
        """Limits a topic's permission to the broker's (brokerPermission)."""
        permission = self._settings.now.broker_permission
        if permission & _RW == _RW:
            return topic
        return msgspec.structs.replace(topic, perm=topic.perm & permission)

    async def register_if_changed(self) -> None:
        """Asks each name server for its version of the topics; registers where it is an old one."""
        version = loose_json.encode(self._topics.version)
        request = QueryDataVersionRequest(
            broker_name=self._settings.now.broker_name,
            broker_addr=self._address,
            cluster_name=self._settings.now.broker_cluster_name,
            broker_id=self._settings.now.broker_id,
        )
        await asyncio.gather(
            *(self._register_unless_known(server, request, version) for server in self._servers)
        )

    async def _register_unless_known(
        self, server: str, request: QueryDataVersionRequest, version: bytes
    ) -> None:
        if not await self._knows(server, request, version):
            self._known.pop(server, None)
            await self._register_with(server)

    async def _knows(self, server: str, request: QueryDataVersionRequest, version: bytes) -> bool:
        try:
            answer = await self._pool.ask_for(
                server,
                request,
                QueryDataVersionResponse,
                self._settings.now.register_broker_timeout_mills,
                version,
            )
        except PocketMQError as e:
            log.debug("name server %s does not tell what it knows: %s", server, e)
            return False
        return not answer.changed

    async def _register_with(self, server: str) -> bool:
        try:
            async with self._locks[server]:  # in order, or an older change would come last
                await self._send_what_lacks(server)
        except PocketMQError as e:
            if self._reachable.get(server, True):
                log.warning("cannot register with name server %s: %s", server, e)
            self._reachable[server] = False
            return False
        if not self._reachable.get(server, False):
            log.info("registered with name server %s as %s", server, self._address)
        self._reachable[server] = True
        return True

    async def _send_what_lacks(self, server: str) -> None:
        """Sends a name server the topics and the users that it lacks.

        Raises:
            PocketMQError: it did not take them.
        """
        timeout_ms = self._settings.now.register_broker_timeout_mills
        try:
            connection = await within(self._clock, timeout_ms / 1000, self._pool.get(server))
        except TimeoutError:
            raise CallTimeoutError(server, timeout_ms) from None
        await self._send_topics(server, connection)
        await self._tell_users(server, connection)

    async def _send_topics(self, server: str, connection: Connection) -> None:
        changed = self._lacking(server, connection)
        if changed is not None:
            try:
                await self._send_changes(server, connection, changed)
                return
            except ResponseError as e:
                log.info("name server %s wants all topics: %s", server, e)
        await self._send(server, connection, self._topics, is_partial=False)

    async def _tell_users(self, server: str, connection: Connection) -> None:
        """Tells a name server the users, if it lacks them; one that takes none does without."""
        telling = self._telling
        if telling is None or not telling.is_due(server, connection):
            return
        version, body = telling.version, telling.body()
        request = TellUsersRequest(
            broker_name=self._settings.now.broker_name,
            broker_addr=self._address,
            cluster_name=self._settings.now.broker_cluster_name,
        )
        try:
            if body:
                await self._ask(server, connection, request, body)
        except ResponseError as e:
            log.warning("name server %s does not take the users: %s", server, e)
        telling.told(server, connection, version)

    def _lacking(self, server: str, connection: Connection) -> ChangedTopics | None:
        """Returns the changes that a name server lacks; None if it needs all topics."""
        known = self._known.get(server)
        if known is None or known.connection is not connection:
            return None
        changes = self._topics.changed_since(known.version)
        if changes is not None and changes.removed and not self._can_remove(connection):
            return None
        return changes

    def _can_remove(self, connection: Connection) -> bool:
        """Whether a name server can be told of removed topics by their names."""
        return connection.peer_is_pocketmq and not self._settings.now.enable_single_topic_register

    async def _send_changes(
        self, server: str, connection: Connection, changes: ChangedTopics
    ) -> None:
        changed, removed = changes
        if changed and self._settings.now.enable_single_topic_register:
            await self._send_singly(server, connection, changed)
        elif changed or removed:
            await self._send(server, connection, changed, is_partial=True, removed=removed)

    async def _send_singly(
        self, server: str, connection: Connection, changed: list[TopicConfig]
    ) -> None:
        """Registers topics one by one; the name server learns the version in the next round."""
        self._known.pop(server, None)
        version = self._topics.version
        for topic in map(self._registered, changed):
            queues = QueueData(
                broker_name=self._settings.now.broker_name,
                read_queue_nums=topic.read_queue_nums,
                write_queue_nums=topic.write_queue_nums,
                perm=topic.perm,
                topic_sys_flag=topic.topic_sys_flag,
            )
            request = RegisterTopicRequest(topic=topic.topic_name)
            await self._ask(server, connection, request, TopicRoute(queue_datas=[queues]).encode())
        self._known[server] = _Known(connection, version)

    async def _send(
        self,
        server: str,
        connection: Connection,
        topics: Iterable[TopicConfig],
        *,
        is_partial: bool,
        removed: list[str] | None = None,
    ) -> None:
        self._known.pop(server, None)
        request, version = self._registration(is_partial=is_partial), self._topics.version
        await self._ask(server, connection, request, await self._body(topics, removed))
        self._known[server] = _Known(connection, version)

    async def _ask(
        self, server: str, connection: Connection, request: RequestHeader, body: bytes
    ) -> None:
        command = Command(request.code, header=request, body=body)
        answer = await connection.call(command, self._settings.now.register_broker_timeout_mills)
        if answer.code != ResponseCode.SUCCESS:
            raise response_error(answer.code, answer.remark, server)

    def _disconnected(self, connection: Connection) -> None:
        """Starts to reconnect to a name server that went away, which forgets the broker."""
        server = connection.attributes.get("address")
        self._known.pop(server or "", None)
        if server is None or self._is_leaving or server in self._reconnecting:
            return
        self._reconnecting.add(server)
        self._tasks.spawn(self._reconnect(server), f"reconnect to {server}")

    async def _reconnect(self, server: str) -> None:
        period_s = self._settings.now.register_name_server_period / 1000
        pause_s = RECONNECT_DELAY_S
        try:
            await self._clock.sleep(pause_s)
            while not await self._register_with(server):
                pause_s = min(2 * pause_s, period_s)
                await self._clock.sleep(pause_s)
        finally:
            self._reconnecting.discard(server)

    async def unregister(self) -> None:
        """Unregisters from all name servers; one that does not answer sees the connection end."""
        self._is_leaving = True
        await self._tasks.close()
        request = UnregisterBrokerRequest(
            broker_name=self._settings.now.broker_name,
            broker_addr=self._address,
            cluster_name=self._settings.now.broker_cluster_name,
            broker_id=self._settings.now.broker_id,
        )
        reachable = [server for server in self._servers if self._reachable.get(server)]
        results = await asyncio.gather(
            *(self._pool.ask(server, request, UNREGISTER_TIMEOUT_MS) for server in reachable),
            return_exceptions=True,
        )
        for server, result in zip(reachable, results, strict=True):
            if isinstance(result, BaseException):
                log.info("cannot unregister from name server %s: %s", server, result)

    def disconnect(self, reason: str) -> None:
        """Closes the connections to all name servers, which are then dialled again."""
        for server in self._servers:
            self._pool.drop(server, reason)

    async def close(self) -> None:
        """Closes the connections."""
        self._is_leaving = True
        await self._tasks.close()
        await self._pool.close()
