"""The users that brokers have told a name server or a proxy, which keeps none of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.telling import ToldUser, UserTable
from pocketmq.auth.users import User

TABLES_MAX = 1_000
"""Brokers whose users are kept."""


class ToldUsers:
    """Enters the users of all brokers into one directory; of several versions the newest counts.

    A user is forgotten when no broker has it in its last table.

    Args:
        directory: of the server.
        configured: users of the configuration, which no broker changes.
        is_registered: whether a broker name is registered.
    """

    def __init__(
        self,
        directory: UserDirectory,
        configured: Collection[User],
        is_registered: Callable[[str], bool],
    ) -> None:
        self._directory, self._is_registered = directory, is_registered
        self._configured = {user.username for user in configured}
        for user in configured:
            directory.put_user(user)
        self._versions: dict[str, int] = {}
        self._tables: dict[str, dict[str, ToldUser]] = {}

    def take(self, broker_name: str, table: UserTable) -> bool:
        """Enters a broker's table; returns False if it is older than the last one."""
        if table.version < self._versions.get(broker_name, 0):
            return False
        before = self._tables.pop(broker_name, {})
        while len(self._tables) >= TABLES_MAX:
            gone = next((n for n in self._tables if not self._is_registered(n)), None)
            self._forget(next(iter(self._tables)) if gone is None else gone)
        self._versions[broker_name] = table.version
        now = {told.user.username: told for told in table.users}
        self._tables[broker_name] = now
        for name in before.keys() | now.keys():
            self._settle(name)
        return True

    def _forget(self, broker_name: str) -> None:
        self._versions.pop(broker_name, None)
        for name in self._tables.pop(broker_name):
            self._settle(name)

    def _settle(self, name: str) -> None:
        """Puts the newest version of a user in force."""
        if name in self._configured:
            return
        versions = [table[name] for table in self._tables.values() if name in table]
        if not versions:
            self._directory.delete_user(name)
            return
        newest = max(versions, key=lambda told: told.user.changed_ms)
        known = self._directory.user(name)
        if newest != (known and ToldUser(known, self._directory.acl(name))):
            self._directory.replace(newest.user, newest.acl)
