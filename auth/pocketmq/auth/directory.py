"""The users of a server and their policies."""

from __future__ import annotations

from pocketmq.auth.policies import Acl
from pocketmq.auth.users import User
from pocketmq.runtime.listeners import Listeners


class UserDirectory:
    """Users and policies by name, in memory.

    Attributes:
        changed: called with the name of each user that is changed, or whose policies are.
    """

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self.changed: Listeners[[str]] = Listeners()

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
        self._users[user.username] = user
        self.changed.notify(user.username)

    def delete_user(self, name: str) -> None:
        """Removes a user and its policies."""
        self._acls.pop(name, None)
        if self._users.pop(name, None) is not None:
            self.changed.notify(name)

    def replace(self, user: User, acl: Acl | None) -> None:
        """Enters a user and its policies in the place of those before."""
        self._users[user.username] = user
        if acl is None:
            self._acls.pop(user.username, None)
        else:
            self._acls[user.username] = acl
        self.changed.notify(user.username)

    def put_policies(self, acl: Acl) -> None:
        """Enters the policies of a user in the place of those before."""
        self._acls[acl.username] = acl
        self.changed.notify(acl.username)

    def delete_policies(self, name: str) -> None:
        """Removes the policies of a user."""
        if self._acls.pop(name, None) is not None:
            self.changed.notify(name)
