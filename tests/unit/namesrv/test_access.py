"""The users that brokers tell a name server, and the owners of broker names."""

from __future__ import annotations

import pytest

from pocketmq.auth import told_users
from pocketmq.auth.directory import UserDirectory
from pocketmq.auth.guard import USER
from pocketmq.auth.rights.policies import Acl
from pocketmq.auth.telling import ToldUser, UserTable
from pocketmq.auth.told_users import ToldUsers
from pocketmq.auth.users import User, UserType
from pocketmq.namesrv import broker_owners
from pocketmq.namesrv.broker_owners import BrokerOwners
from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.route_table import RouteTable
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Reply

ROOT = User("root", "r", UserType.SUPER)


def table(version: int, **users: int) -> UserTable:
    """A table of users by the times of their last changes."""
    return UserTable(
        version,
        [ToldUser(User(name, f"at {ms}", changed_ms=ms), Acl(name)) for name, ms in users.items()],
    )


class TestToldUsers:
    def test_the_newest_version_of_a_user_counts(self) -> None:
        directory = UserDirectory()
        told = ToldUsers(directory, [ROOT], lambda _: True)
        assert told.take("a", table(1, u=5, v=1))
        assert told.take("b", table(1, u=4, v=2))
        assert {u.username: u.password for u in directory.users()} == {
            "root": "r",
            "u": "at 5",
            "v": "at 2",
        }
        assert told.take("a", table(2, v=3))
        assert (directory.user("u"), directory.user("v")) == (
            User("u", "at 4", changed_ms=4),
            User("v", "at 3", changed_ms=3),
        )
        assert told.take("b", table(2))
        assert directory.user("u") is None

    def test_an_old_table_counts_nothing(self) -> None:
        directory = UserDirectory()
        told = ToldUsers(directory, [], lambda _: True)
        told.take("a", table(7, u=1))
        assert not told.take("a", table(6))
        assert directory.user("u") is not None

    def test_users_of_the_configuration_are_not_changed(self) -> None:
        directory = UserDirectory()
        told = ToldUsers(directory, [ROOT], lambda _: True)
        told.take("a", table(1, root=99))
        told.take("a", table(2))
        assert directory.user("root") == ROOT

    def test_nobody_is_told_of_what_stays(self) -> None:
        directory, changed = UserDirectory(), list[str]()
        told = ToldUsers(directory, [], lambda _: True)
        told.take("a", table(1, u=1))
        directory.changed.add(changed.append)
        told.take("a", table(2, u=1, v=1))
        assert changed == ["v"]

    def test_tables_are_bounded_and_those_of_gone_brokers_go_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(told_users, "TABLES_MAX", 2)
        directory = UserDirectory()
        told = ToldUsers(directory, [], lambda name: name != "b")
        for name in "abc":
            told.take(name, table(1, **{f"user-{name}": 1}))
        assert {user.username for user in directory.users()} == {"user-a", "user-c"}


class Owned:
    """The requests of brokers, as users send them."""

    def __init__(self, clock: VirtualClock) -> None:
        self.config, self.routes, self.clock = NamesrvConfig(), RouteTable(), clock
        self.owners = BrokerOwners(self.config, clock, self.routes)

    def ask(self, user: str, code: int = RequestCode.REGISTER_BROKER, name: str = "b1") -> str:
        """The remark of the refusal; empty if the request is handled."""
        try:
            self.owners.guard(code, handled)(*self.request(user, code, name))
        except ResponseError as e:
            return f"{e.code} {e}"
        return ""

    def request(self, user: str, code: int, name: str) -> tuple[Command, Connection]:
        """A request of a user for a broker."""
        connection = Connection(self.clock, {})
        connection.attributes[USER] = user
        fields = {"brokerName": name, "brokerAddr": f"{name}:1", "clusterName": "c"}
        command = Command(code, extra=fields)
        command.raw = fields
        return command, connection


def handled(_: Command, __: Connection) -> Reply:
    return Command(0)


class TestBrokerOwners:
    async def test_a_name_is_its_first_users_until_it_is_silent(self, clock: VirtualClock) -> None:
        owned = Owned(clock)
        assert owned.ask("one") == ""
        assert owned.ask("two").startswith(f"{ResponseCode.NO_PERMISSION:d} ")
        assert "belongs to User:one" in owned.ask("two")
        assert owned.ask("two", name="b2") == ""
        await clock.advance(owned.config.broker_expired_timeout / 1000 - 1)
        assert owned.ask("one", RequestCode.BROKER_HEARTBEAT) == ""
        await clock.advance(owned.config.broker_expired_timeout / 1000 - 1)
        assert "belongs to User:one" in owned.ask("two", RequestCode.AUTH_TELL)
        await clock.advance(2)
        assert owned.ask("two") == ""
        assert "belongs to User:two" in owned.ask("one")

    async def test_a_name_is_free_after_it_was_unregistered(self, clock: VirtualClock) -> None:
        owned = Owned(clock)
        owned.ask("one")
        assert owned.ask("one", RequestCode.UNREGISTER_BROKER) == ""
        assert owned.ask("two") == ""

    async def test_only_a_registration_takes_a_name(self, clock: VirtualClock) -> None:
        owned = Owned(clock)
        assert owned.ask("one", RequestCode.BROKER_HEARTBEAT) == ""
        assert owned.ask("two") == ""

    async def test_requests_that_speak_for_no_broker_are_not_looked_at(
        self, clock: VirtualClock
    ) -> None:
        owners = Owned(clock).owners
        assert owners.guard(RequestCode.GET_ROUTEINFO_BY_TOPIC, handled) is handled

    async def test_names_are_bounded(
        self, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(broker_owners, "OWNERS_MAX", 2)
        owned = Owned(clock)
        owned.ask("one", name="b1")
        await clock.advance(owned.config.broker_expired_timeout / 1000 + 1)
        owned.ask("one", name="b2")
        assert owned.ask("one", name="b3") == "", "the silent one made room"
        with pytest.raises(ResponseError, match="which is the limit"):
            owned.owners.guard(RequestCode.REGISTER_BROKER, handled)(
                *owned.request("one", RequestCode.REGISTER_BROKER, "b4")
            )
