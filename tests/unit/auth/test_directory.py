"""The users of a server, what is kept of them between requests, and what brokers tell of them."""

from __future__ import annotations

import pytest

from pocketmq.auth.accounts import GRANTS_MAX, Account, Accounts
from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.rights.policies import Acl, Action, Decision, PolicyEntry
from pocketmq.auth.telling import TABLE_SIZE_MAX, ToldUser, UserTable
from pocketmq.auth.users import User, UserStatus, UserType
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.signing import Credentials

INNER = Credentials("inner", "inner-secret")
ACL = Acl("u", (PolicyEntry("Topic:t", frozenset({Action.PUB}), Decision.ALLOW),))


def test_each_change_is_told() -> None:
    directory, told = UserDirectory(), list[str]()
    directory.changed.add(told.append)
    directory.put_user(User("u", "p"))
    directory.put_policies(ACL, 5)
    assert directory.user("u") == User("u", "p", changed_ms=5)
    directory.put_policies(Acl("u"), 6)
    assert directory.acl("u") is None
    directory.replace(User("u", "q"), ACL)
    assert (directory.user("u"), directory.acl("u")) == (User("u", "q"), ACL)
    directory.replace(User("u", "q"), None)
    assert (directory.users(), directory.acls()) == ([User("u", "q")], [])
    directory.delete_user("u")
    directory.delete_user("u")
    assert told == ["u"] * 6


def test_a_password_is_not_shown() -> None:
    text = repr(User("u", "hidden-secret", UserType.SUPER, UserStatus.DISABLE, 5))
    assert "hidden-secret" not in text
    assert all(part in text for part in ("'u'", "Super", "disable", "5"))


class TestAccounts:
    def test_an_account_is_made_anew_after_a_change(self) -> None:
        directory = UserDirectory()
        directory.put_user(User("u", "p"))
        accounts = Accounts(directory)
        first = accounts["u"]
        assert accounts["u"] is first
        directory.put_policies(ACL, 5)
        assert accounts["u"] is not first
        assert accounts["u"].acl == ACL
        directory.delete_user("u")
        with pytest.raises(KeyError):
            accounts["u"]
        assert len(accounts) == 0, "strangers take no memory"

    def test_what_is_remembered_is_bounded(self) -> None:
        directory = UserDirectory()
        directory.put_user(User("u", "p"))
        account = Account("u", directory)
        for n in range(GRANTS_MAX + 1):
            account.grant(n)
        assert account.grants == {GRANTS_MAX}


class TestTelling:
    def table(self) -> UserTable:
        directory = UserDirectory()
        directory.put_user(User("u", "hidden-secret"))
        directory.put_policies(ACL, 5)
        directory.put_user(User("v", "w", UserType.SUPER))
        return UserTable.of(directory, 7)

    def test_a_table_arrives_as_it_was(self) -> None:
        sealed = self.table().sealed(INNER)
        assert b"hidden-secret" not in sealed
        opened = UserTable.opened(sealed, INNER)
        assert opened == self.table()
        assert opened.users[0] == ToldUser(User("u", "hidden-secret", changed_ms=5), ACL)

    @pytest.mark.parametrize("damage", ["", "short", "other", "changed", "large"])
    def test_what_others_made_is_refused(self, damage: str) -> None:
        sealed = self.table().sealed(INNER)
        data = {
            "": b"",
            "short": sealed[:20],
            "other": self.table().sealed(Credentials("inner", "guess")),
            "changed": sealed[:-1] + bytes([sealed[-1] ^ 1]),
            "large": bytes(TABLE_SIZE_MAX + 1),
        }[damage]
        with pytest.raises(ContentError, match="table of users"):
            UserTable.opened(data, INNER)
