"""What happens to the open connections of a user that changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.guard import USERS
from pocketmq.auth.users import UserStatus
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.auth")


class Revoking:
    """Closes the connections of users that are disabled or deleted, and releases held requests.

    All changes of one turn of the loop cost one walk over the connections.

    Args:
        directory: whose changes are followed.
        connections: the open ones.
        release: answers what is held for a connection, so that its client asks again.
    """

    def __init__(
        self,
        directory: UserDirectory,
        connections: Iterable[Connection],
        release: Callable[[Connection], object],
    ) -> None:
        self._directory, self._connections, self._release = directory, connections, release
        self._changed = set[str]()
        directory.changed.add(self._note)

    def _note(self, name: str) -> None:
        if not self._changed:
            try:
                asyncio.get_running_loop().call_soon(self._act)
            except RuntimeError:  # before the server runs there are no connections
                return
        self._changed.add(name)

    def _act(self) -> None:
        changed, self._changed = self._changed, set()
        gone = {name for name in changed if not self._is_enabled(name)}
        for connection in list(self._connections):
            users: set[str] = connection.attributes.get(USERS, set())
            if users.isdisjoint(changed):
                continue
            if users.isdisjoint(gone):
                self._release(connection)
                continue
            log.info("%s is closed: its user may not ask any more", connection.peer_name)
            connection.close("its user was disabled or deleted")

    def _is_enabled(self, name: str) -> bool:
        user = self._directory.user(name)
        return user is not None and user.user_status is UserStatus.ENABLE
