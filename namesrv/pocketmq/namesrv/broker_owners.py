"""Which user a broker name belongs to: the one that registered it first."""

from __future__ import annotations

from functools import wraps
from typing import NamedTuple

from pocketmq.auth.guard import USER
from pocketmq.namesrv.broker_registration import BrokerKey
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import Header
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Handler, Reply

OWNED_CODES = frozenset(
    {
        Code.REGISTER_BROKER,
        Code.UNREGISTER_BROKER,
        Code.QUERY_DATA_VERSION,
        Code.BROKER_HEARTBEAT,
        Code.AUTH_TELL,
        Code.REGISTER_TOPIC_IN_NAMESRV,
    }
)
"""Requests in which a broker speaks for itself."""

OWNERS_MAX = 10_000
"""Broker names that belong to somebody."""


class _Owner(NamedTuple):
    user: str
    seen_s: float


class BrokerOwners:
    """Refuses what one user says in the name of another user's broker.

    A name is free again when its broker has unregistered, or was silent for as long as brokers may
    be (brokerExpiredTimeout).

    Args:
        config: of the name server.
        clock: for the silence.
        routes: the registered brokers.
    """

    def __init__(self, config: NamesrvConfig, clock: Clock, routes: RouteTable) -> None:
        self._config, self._clock, self._routes = config, clock, routes
        self._owners: dict[str, _Owner] = {}

    def guard(self, code: int, handler: Handler) -> Handler:
        """Returns a handler that takes requests of a broker from its owner only.

        Args:
            code: of the requests.
            handler: handles them.
        """
        if code not in OWNED_CODES:
            return handler
        is_registering = code == Code.REGISTER_BROKER

        @wraps(handler)
        def guarded_handler(command: Command, connection: Connection) -> Reply:
            user = str(connection.attributes.get(USER, ""))
            names = self._broker_names(command)
            for name in names:
                self._check(name, user, is_registering=is_registering)
            reply = handler(command, connection)
            if code == Code.UNREGISTER_BROKER:
                for name in names:
                    if not self._routes.knows(name):
                        self._owners.pop(name, None)
            return reply

        return guarded_handler

    def _check(self, name: str, user: str, *, is_registering: bool) -> None:
        now_s = self._clock.monotonic()
        owner = self._owners.get(name)
        if owner is None and not is_registering:
            return
        if owner is not None and owner.user != user and not self._is_over(owner, now_s):
            raise response_error(
                ResponseCode.NO_PERMISSION,
                f"the broker name {name} belongs to User:{owner.user}, who registered it first: "
                f"User:{user} needs another name, or has to wait until that broker has "
                f"unregistered or was silent for {self._config.broker_expired_timeout} ms",
            )
        if owner is None and len(self._owners) >= OWNERS_MAX:
            self._forget_the_silent(now_s)
        self._owners[name] = _Owner(user, now_s)

    def _is_over(self, owner: _Owner, now_s: float) -> bool:
        return (now_s - owner.seen_s) * 1000 > self._config.broker_expired_timeout

    def _forget_the_silent(self, now_s: float) -> None:
        self._owners = {
            name: owner for name, owner in self._owners.items() if not self._is_over(owner, now_s)
        }
        if len(self._owners) >= OWNERS_MAX:
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"this name server knows {OWNERS_MAX} broker names, which is the limit",
            )

    def _broker_names(self, command: Command) -> set[str]:
        """The brokers for which a request speaks: by name, and by the address of a known one."""
        if command.code == Code.REGISTER_TOPIC_IN_NAMESRV:
            body = command.body
            queues = TopicRoute.of_request(body).queue_datas if body else []
            return {data.broker_name for data in queues}
        header = command.read(_BrokerFields)
        known = self._routes.name_at(BrokerKey(header.cluster_name, header.broker_addr))
        return {header.broker_name} if known is None else {header.broker_name, known}


class _BrokerFields(Header, kw_only=True):
    broker_name: str
    broker_addr: str
    cluster_name: str
