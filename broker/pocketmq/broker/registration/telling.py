"""The users of the broker, as other servers of the cluster are told them."""

from __future__ import annotations

import logging

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.telling import TABLE_SIZE_MAX, UserTable
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.broker")


class UserTelling:
    """The table of users, and which name server has which version of it.

    Name servers are told on each new connection, and after changes; proxies ask.

    Args:
        directory: of the broker.
        inner: the credentials of the servers of the cluster.
        clock: dates the versions, which so grow over restarts, too.
    """

    def __init__(self, directory: UserDirectory, inner: Credentials, clock: Clock) -> None:
        self._directory, self._inner, self._clock = directory, inner, clock
        self._version = clock.now_ms()
        self._told: dict[str, tuple[Connection, int]] = {}
        directory.changed.add(self._note_change)

    def _note_change(self, _: str) -> None:
        self._version = max(self._version + 1, self._clock.now_ms())

    def is_due(self, server: str, connection: Connection) -> bool:
        """Whether a name server lacks the users as they are now."""
        return self._told.get(server) != (connection, self._version)

    def body(self) -> bytes:
        """The encrypted table; empty if it is too large to be told."""
        body = UserTable.of(self._directory, self._version).sealed(self._inner)
        if len(body) <= TABLE_SIZE_MAX:
            return body
        log.error(
            "name servers are not told the users: they take %d bytes, allowed are %d",
            len(body),
            TABLE_SIZE_MAX,
        )
        return b""

    def told(self, server: str, connection: Connection, version: int) -> None:
        """Notes that a name server has the users of a version."""
        self._told[server] = (connection, version)

    @property
    def server_name(self) -> str:
        """The user that the servers of the cluster are."""
        return self._inner.access_key

    @property
    def version(self) -> int:
        """Of the table now."""
        return self._version
