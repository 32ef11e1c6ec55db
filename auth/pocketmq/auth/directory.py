"""The users of a server and their policies."""

from __future__ import annotations

import msgspec

from pocketmq.auth.rights.policies import Acl
from pocketmq.auth.stored import StoredUsers
from pocketmq.auth.users import User
from pocketmq.runtime.listeners import Listeners


class UserDirectory:
    """Users and policies by name, in memory, and on the disk if there is a place for them.

    What a change raises of the disk leaves all as it was.

    Args:
        stored: keeps them; None if they need not survive.

    Attributes:
        changed: called with the name of each user that is changed, or whose policies are.

    Raises:
        ConfigError: what is stored cannot be decrypted.
    """

    def __init__(self, stored: StoredUsers | None = None) -> None:
        self._stored = stored
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self.changed: Listeners[[str]] = Listeners()
        for user, acl in () if stored is None else stored.load():
            self._enter(user, acl)

    def reload(self) -> None:
        """Takes over what is stored now: somebody else has changed it.

        Raises:
            ConfigError: it cannot be decrypted.
        """
        users, acls = self._users, self._acls
        self._users, self._acls = {}, {}
        for user, acl in () if self._stored is None else self._stored.load():
            self._enter(user, acl)
        for name in users.keys() | self._users.keys():
            if (users.get(name), acls.get(name)) != (self._users.get(name), self._acls.get(name)):
                self.changed.notify(name)

    def user(self, name: str) -> User | None:
        """The user of a name; None if there is none."""
        return self._users.get(name)

    def acl(self, name: str) -> Acl | None:
        """The policies of a user; None if it has none."""
        return self._acls.get(name)

    def users(self) -> list[User]:
        """All users."""
        return list(self._users.values())

    def acls(self) -> list[Acl]:
        """All policies."""
        return list(self._acls.values())

    def put_user(self, user: User) -> None:
        """Enters a user, or another version of it."""
        self.replace(user, self._acls.get(user.username))

    def put_policies(self, acl: Acl, changed_ms: int) -> None:
        """Enters the policies of a user in the place of those before.

        Args:
            acl: the policies.
            changed_ms: when, in milliseconds since the epoch.

        Raises:
            KeyError: there is no such user.
        """
        user = msgspec.structs.replace(self._users[acl.username], changed_ms=changed_ms)
        self.replace(user, acl if acl.entries else None)

    def replace(self, user: User, acl: Acl | None) -> None:
        """Enters a user and its policies in the place of those before."""
        if self._stored is not None:
            self._stored.save(user, acl)
        self._enter(user, acl)
        self.changed.notify(user.username)

    def delete_user(self, name: str) -> None:
        """Removes a user and its policies."""
        if name not in self._users:
            return
        if self._stored is not None:
            self._stored.remove(name)
        del self._users[name]
        self._acls.pop(name, None)
        self.changed.notify(name)

    def _enter(self, user: User, acl: Acl | None) -> None:
        self._users[user.username] = user
        if acl is None:
            self._acls.pop(user.username, None)
        else:
            self._acls[user.username] = acl
