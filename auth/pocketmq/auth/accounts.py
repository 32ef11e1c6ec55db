"""What a guard keeps of each user between requests."""

from __future__ import annotations

from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.rights.policies import Acl
from pocketmq.auth.users import UserStatus, UserType
from pocketmq.protocol.signing import SigningKey

GRANTS_MAX = 10_000
"""Decisions that are remembered of one user."""


class Account:
    """A user as a guard knows it, until the user or its policies change.

    Attributes:
        name: of the user.
        key: checks signatures.
        is_enabled: whether requests are taken at all.
        is_super: whether all of them are allowed.
        acl: its policies.
        grants: what was allowed before.
    """

    __slots__ = ("acl", "grants", "is_enabled", "is_super", "key", "name")

    def __init__(self, name: str, directory: UserDirectory) -> None:
        user = directory.user(name)
        if user is None:
            raise KeyError(name)
        self.name = name
        self.key = SigningKey(user.password)
        self.is_enabled = user.user_status is UserStatus.ENABLE
        self.is_super = user.user_type is UserType.SUPER
        self.acl: Acl | None = directory.acl(name)
        self.grants = set[object]()

    def grant(self, key: object) -> None:
        """Remembers that something is allowed."""
        if len(self.grants) >= GRANTS_MAX:
            self.grants.clear()
        self.grants.add(key)


class Accounts(dict[str, Account]):
    """The accounts in use, by name; a missing one is made of the directory.

    Args:
        directory: knows the users; its changes make accounts be made anew.

    Raises:
        KeyError: on a look-up, there is no such user.
    """

    def __init__(self, directory: UserDirectory) -> None:
        super().__init__()
        self._directory = directory
        directory.changed.add(self._forget)

    def find(self, name: str) -> Account | None:
        """Returns what is kept of a user; None if there is no such user."""
        try:
            return self[name]
        except KeyError:
            return None

    def __missing__(self, name: str) -> Account:
        account = self[name] = Account(name, self._directory)
        return account

    def _forget(self, name: str) -> None:
        self.pop(name, None)
