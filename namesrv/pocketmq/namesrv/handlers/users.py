"""The handler of the users that brokers tell: 31003."""

from __future__ import annotations

import logging

from pocketmq.auth.telling import UserTable
from pocketmq.auth.told_users import ToldUsers
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.requests.nameserver import TellUsersRequest
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

log = logging.getLogger("pocketmq.namesrv")


class UserHandlers:
    """Takes the users of registered brokers.

    Args:
        users: where they go.
        inner: the credentials by which they are encrypted.
        routes: the registered brokers.
    """

    def __init__(self, users: ToldUsers, inner: Credentials, routes: RouteTable) -> None:
        self._users, self._inner, self._routes = users, inner, routes

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {TellUsersRequest.code: self.tell}

    def tell(self, request: Command, connection: Connection) -> Command:
        """31003: takes the whole table of a broker's users and policies."""
        header = request.read(TellUsersRequest)
        if not self._routes.knows(header.broker_name):
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"the broker {header.broker_name} is not known here; it has to register first",
            )
        table = UserTable.opened(request.body, self._inner)
        if not self._users.take(header.broker_name, table):
            log.warning("%s told an old table of users of %s, which counts nothing",
                        connection.remote_address, header.broker_name)  # fmt: skip
        return Command(ResponseCode.SUCCESS)
