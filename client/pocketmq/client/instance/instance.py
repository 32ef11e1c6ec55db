"""What the producers and consumers of one process share: connections, routes, heartbeats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

from pocketmq.client.credentials import chosen_credentials, signing
from pocketmq.client.errors import ClosedError
from pocketmq.client.instance.addresses import namesrv_addresses
from pocketmq.client.instance.broker_requests import BrokerRequests
from pocketmq.client.instance.heartbeat import Heartbeats, InstanceGroups
from pocketmq.client.instance.identity import UniqueKeys, client_id
from pocketmq.client.instance.leader_search import LeaderSearch
from pocketmq.client.instance.namespacing import namespacing, take_out
from pocketmq.client.instance.namesrv_link import NamesrvLink
from pocketmq.client.instance.requests import RequestTable
from pocketmq.client.instance.routes import RouteCache
from pocketmq.client.lifecycle import Startable
from pocketmq.client.settings import InstanceSettings, take_settings
from pocketmq.client.tls import chosen_tls
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.protocol.requests.clients import ConsumerIdsChangedRequest
from pocketmq.protocol.requests.transactions import CheckTransactionStateRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.transport.connection import BeforeRequest, Connection, Handler
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.client")

NamesrvList = str | Iterable[str] | None


class ClientInstance(Startable):
    """One client as brokers see it (`client/impl/factory/MQClientInstance`).

    A producer or consumer makes one for itself unless it is given one. Sharing one saves
    connections, route polls and heartbeats::

        async with ClientInstance("127.0.0.1:9876") as instance:
            async with Producer("orders", instance=instance) as producer: ...

    Args:
        namesrv: the name servers; see `addresses.namesrv_addresses`.
        clock: the source of time.
        random: the source of randomness.
        before_request: called with each request before it is signed; may add fields.
        settings: fields of `InstanceSettings`.

    Attributes:
        namespace: of the topics and groups of its members.
        credentials: sign its requests; None for none.
        tls: how it speaks TLS; None for plain connections.

    Raises:
        ConfigError, IllegalNameError.
    """

    def __init__(
        self,
        namesrv: NamesrvList = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        before_request: tuple[BeforeRequest, ...] = (),
        **settings: Any,
    ) -> None:
        self._before_request = before_request
        self.settings, _ = take_settings(InstanceSettings, settings)
        self.credentials = chosen_credentials(self.settings.credentials)
        self.tls = chosen_tls(self.settings.tls)
        self.namespace = Namespace(self.settings.namespace)
        self._addresses = namesrv_addresses(namesrv)
        self.clock: Clock = clock or SystemClock()
        self.random = random or Random()
        self.client_id = client_id(self.random, self.settings.instance_name)
        self.unique_keys = UniqueKeys(self.clock.now_ms, self.random)
        self.groups = InstanceGroups(self.namespace)
        self.requests = RequestTable(self.client_id, self.clock, self.random)
        self.handlers: dict[int, Handler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._group_changed,
            **BrokerRequests(self.groups, self._addresses, self.namespace).table(),
            RequestCode.CHECK_TRANSACTION_STATE: self._check_transaction,
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self.requests.take,
        }
        self._version_ms = 0
        self._stack: AsyncExitStack | None = None

    @property
    def is_running(self) -> bool:
        """Whether the instance was started and is not closed."""
        return self._stack is not None

    async def start(self) -> None:
        """Starts the background work; nothing is connected before it is needed. Idempotent."""
        if self._stack is not None:
            return
        settings = self.settings
        self.pool = ConnectionPool(
            self.clock,
            self.handlers,
            connect_timeout_ms=settings.connect_timeout_ms,
            # What is signed must be whole: names are wrapped before.
            before_request=(
                *namespacing(self.namespace, settings.namespace_v2),
                *self._before_request,
                *signing(self.credentials),
            ),
            tls=self.tls,
            on_close=self._disconnected,
        )
        self.tasks = Tasks()
        self.namesrv = NamesrvLink(
            self.pool, self._addresses, self.random, settings.call_timeout_ms
        )
        self.routes = RouteCache(self.namesrv, settings, self.random, self._brokers_found)
        self.leader_search = LeaderSearch(self.routes, self.pool, self.clock, self.tasks)
        self.heartbeats = Heartbeats(self.client_id, self.groups, self.pool, self.routes, settings)
        self._heartbeat_due = asyncio.Event()
        self._stack = AsyncExitStack()
        self._stack.push_async_callback(self.pool.close)
        self._stack.push_async_callback(self.tasks.close)
        poll_s = settings.poll_namesrv_interval_ms / 1000
        beat_s = settings.heartbeat_interval_ms / 1000
        self.tasks.spawn(repeat(self.clock, poll_s, self.routes.refresh), "route poll")
        self.tasks.spawn(repeat(self.clock, beat_s, self.heartbeats.send), "heartbeat")
        self.tasks.spawn(self._greet_new_brokers(), "heartbeat to new brokers")

    def next_version_ms(self) -> int:
        """Returns the time as the version of a subscription, later than each one before.

        Brokers ignore one that is not newer, also when two changes share a millisecond or the
        machine's clock was set back.
        """
        self._version_ms = max(self.clock.now_ms(), self._version_ms + 1)
        return self._version_ms

    async def close(self) -> None:
        """Ends the background work and closes all connections. Idempotent."""
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    def check_running(self) -> None:
        """Checks that the instance can be used.

        Raises:
            ClosedError: it was not started, or is closed.
        """
        if self._stack is None:
            raise ClosedError("client instance")

    def _disconnected(self, connection: Connection) -> None:
        if self._stack is not None:
            self.leader_search.lost(connection)

    def _brokers_found(self) -> None:
        self._heartbeat_due.set()

    async def _greet_new_brokers(self) -> None:
        while True:
            await self._heartbeat_due.wait()
            self._heartbeat_due.clear()
            await self.heartbeats.send()

    def _group_changed(self, request: Command, connection: Connection) -> None:
        group = self.namespace.unwrap(request.read(ConsumerIdsChangedRequest).consumer_group)
        member = self.groups.consumers.get(group)
        if member is not None:
            member.group_changed()

    def _check_transaction(self, request: Command, connection: Connection) -> None:
        header = request.read(CheckTransactionStateRequest)
        for message in decode_records(request.body, header.broker_name or ""):
            take_out(self.namespace, message)
            group = self.namespace.unwrap(message.properties.get(props.PRODUCER_GROUP, ""))
            checker = self.groups.checkers.get(group)
            if checker is None:
                log.warning(
                    "%s asks about a transaction of group %s, of which no transactional producer "
                    "is here",
                    connection.remote_address,
                    group,
                )
            else:
                checker.check_transaction(header, message, connection)


class InstanceLease:
    """A member's use of an instance: its own, which it starts and closes, or a shared one.

    Args:
        instance: a shared instance, or None for one of its own.
        namesrv, clock, random, settings: for one of its own.
    """

    def __init__(
        self,
        instance: ClientInstance | None,
        namesrv: NamesrvList,
        clock: Clock | None,
        random: Random | None,
        settings: dict[str, Any],
    ) -> None:
        self.is_owned = instance is None
        if instance is not None:
            if settings or namesrv is not None:
                raise ConfigError(
                    "a shared instance brings its own settings: give namesrv and "
                    f"{', '.join(InstanceSettings.__struct_fields__)} to the instance"
                )
            self.instance = instance
        else:
            self.instance = ClientInstance(namesrv, clock=clock, random=random, **settings)

    async def acquire(self) -> None:
        """Starts the instance if it is the member's own.

        Raises:
            ClosedError: a shared instance is not running.
        """
        if self.is_owned:
            await self.instance.start()
        self.instance.check_running()

    async def release(self) -> None:
        """Closes the instance if it is the member's own."""
        if self.is_owned:
            await self.instance.close()
