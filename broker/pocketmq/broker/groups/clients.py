"""The living producers and consumers, as heartbeats announce them (`broker/client/*Manager`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Set

import msgspec

from pocketmq.broker.groups.subscriptions import (
    MemberSubscription,
    SubscriptionConflicts,
    subscription_of,
)
from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    ClientConnection,
    ConsumerData,
    Subscription,
    SubscriptionSide,
)
from pocketmq.protocol.codes import LANGUAGE_NAMES
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.broker")


class Member(msgspec.Struct, eq=False):
    """One client of a group, by its connection.

    Attributes:
        client_id, language, version: as its frames say.
        connection: to it.
        seen_at: when its last heartbeat came, in seconds of the clock.
        seen_ms: the same, since the epoch.
        subscription: what it subscribes to, if it has said so.
        fingerprint: of its last heartbeat; 0 if it sends none.
    """

    client_id: str
    connection: Connection
    language: int
    version: int
    seen_at: float
    seen_ms: int = 0
    subscription: MemberSubscription | None = None
    fingerprint: int = 0

    @property
    def language_name(self) -> str:
        """The name of the language that the client is written in."""
        return LANGUAGE_NAMES.get(self.language, "OTHER")

    def describe(self) -> ClientConnection:
        """Describes the member as an entry of mqadmin's connection lists."""
        return ClientConnection(
            client_id=self.client_id,
            client_addr=self.connection.remote_address,
            language=self.language_name,
            version=self.version,
            subscription=None if self.subscription is None else self.subscription.text,
        )


class ProducerTable:
    """The living producers by group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Connection, Member]] = {}
        self._of_connection: dict[Connection, set[str]] = {}
        self._by_client: dict[str, Connection] = {}
        self._turns = 0

    def heartbeat(self, group: str, member: Member) -> None:
        """Enters a producer, or renews its entry."""
        self._groups.setdefault(group, {})[member.connection] = member
        self._of_connection.setdefault(member.connection, set()).add(group)
        self._by_client[member.client_id] = member.connection

    def groups_of(self, connection: Connection) -> Set[str]:
        """The groups in which a connection has a producer."""
        return self._of_connection.get(connection, frozenset())

    def leave(self, group: str, connection: Connection) -> None:
        """Removes a producer from a group."""
        members = self._groups.get(group, {})
        member = members.pop(connection, None)
        if member is None:
            return
        if not members:
            del self._groups[group]
        if not _left(self._of_connection, group, connection):
            return
        if self._by_client.get(member.client_id) is connection:
            del self._by_client[member.client_id]

    def connection_of(self, client_id: str) -> Connection | None:
        """Returns the connection to the producer with a client id; None if it is not alive."""
        return self._by_client.get(client_id)

    def leave_all(self, connection: Connection) -> None:
        """Removes the members of a closed connection from all groups."""
        for group in list(self._of_connection.get(connection, ())):
            self.leave(group, connection)

    def members(self, group: str) -> list[Member]:
        """Lists the living producers of a group."""
        return list(self._groups.get(group, {}).values())

    def next_member(self, group: str) -> Member | None:
        """Returns a living producer of a group, the next one at each call; None without any."""
        members = [m for m in self.members(group) if not m.connection.is_closing]
        self._turns += 1
        return members[self._turns % len(members)] if members else None

    def __iter__(self) -> Iterator[tuple[str, list[Member]]]:
        return ((group, list(members.values())) for group, members in self._groups.items())


class ConsumerGroup:
    """The living consumers of a group, with the data of the last heartbeat.

    Attributes:
        data: the last heartbeat's.
        members: by connection.
        subscriptions: by topic, the last heartbeat's.
        conflicts: finds members that subscribe differently.
        fingerprint: the last heartbeat's that had one.
    """

    def __init__(self, data: ConsumerData) -> None:
        self.data = data
        self.members: dict[Connection, Member] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.conflicts = SubscriptionConflicts(data.group_name)
        self.fingerprint = 0

    def subscribe(self, subscriptions: list[Subscription]) -> bool:
        """Takes over the subscriptions of the newest heartbeat; True if the set of topics changed.

        The group's table is the last heartbeat's (behaviour.md §9); a newer version replaces.
        """
        before = set(self.subscriptions)
        for subscription in subscriptions:
            known = self.subscriptions.get(subscription.topic)
            if known is None or known.sub_version < subscription.sub_version:
                self.subscriptions[subscription.topic] = subscription
        now = {s.topic for s in subscriptions}
        for topic in before - now:
            del self.subscriptions[topic]
        return before != now

    def conflict(self) -> list[SubscriptionSide]:
        """Lists which members subscribe how, if they differ."""
        return self.conflicts.sides(self._wanted())

    def change_subscription(
        self, before: MemberSubscription | None, after: MemberSubscription | None
    ) -> None:
        """Records that a member changed its subscription, has come or has gone."""
        if before != after:
            self.conflicts.change(before, after)
            self.conflicts.report(self._wanted())

    def _wanted(self) -> Iterator[tuple[str, MemberSubscription | None]]:
        return ((member.client_id, member.subscription) for member in self.members.values())


class ConsumerTable:
    """The living consumers by group.

    Args:
        on_members_changed: called with a group whose members or topics changed, to tell them.
    """

    def __init__(self, on_members_changed: Callable[[str, ConsumerGroup], object]) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._of_connection: dict[Connection, set[str]] = {}
        self._on_members_changed = on_members_changed

    def get(self, group: str) -> ConsumerGroup | None:
        """Returns a group; None if it has no living consumers."""
        return self._groups.get(group)

    def __iter__(self) -> Iterator[tuple[str, ConsumerGroup]]:
        return iter(self._groups.items())

    def heartbeat(
        self, data: ConsumerData, member: Member, *, fingerprint: int = 0, without_sub: bool = False
    ) -> bool:
        """Enters a consumer with its subscriptions, or renews its entry.

        Args:
            data: its group and subscriptions.
            member: who it is.
            fingerprint: of a heartbeat of version 2 (`ClientManageProcessor#heartBeatV2`), else 0.
            without_sub: the subscriptions were left out, as the broker knows them.

        Returns:
            Whether its next heartbeat should bring the subscriptions: others than the group's last
            ones were announced, or, after `without_sub`, this member's are not known. RocketMQ
            does not see the second after a restart of the broker.
        """
        group = self._groups.get(data.group_name)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(data)
        known = group.members.get(member.connection)
        before = None if known is None else known.subscription
        is_changed = group.fingerprint not in (0, fingerprint)
        if without_sub:
            is_changed |= known is None or known.fingerprint != fingerprint
        member.fingerprint = group.fingerprint = fingerprint
        topics_changed = False
        group.members[member.connection] = member
        self._of_connection.setdefault(member.connection, set()).add(data.group_name)
        if without_sub:
            member.subscription = before
            data.subscription_data_set = list(group.subscriptions.values())
        else:
            member.subscription = subscription_of(data)
            if before == member.subscription:
                member.subscription = before  # one copy is enough
            topics_changed = group.subscribe(data.subscription_data_set)
        group.data = data
        group.change_subscription(before, member.subscription)
        if (known is None or topics_changed) and data.message_model != BROADCASTING:
            self._on_members_changed(data.group_name, group)
        return is_changed

    def groups_of(self, connection: Connection) -> Set[str]:
        """The groups in which a connection has a consumer."""
        return self._of_connection.get(connection, frozenset())

    def leave(self, name: str, connection: Connection) -> None:
        """Removes a consumer from a group."""
        group = self._groups.get(name)
        member = None if group is None else group.members.pop(connection, None)
        if group is None or member is None:
            return
        _left(self._of_connection, name, connection)
        group.change_subscription(member.subscription, None)
        if not group.members:
            del self._groups[name]
        elif group.data.message_model != BROADCASTING:
            self._on_members_changed(name, group)

    def leave_all(self, connection: Connection) -> None:
        """Removes the members of a closed connection from all groups."""
        for name in list(self._of_connection.get(connection, ())):
            self.leave(name, connection)


def _left(groups: dict[Connection, set[str]], group: str, connection: Connection) -> bool:
    """Removes a group from those of a connection; True if it was the last one."""
    groups[connection].discard(group)
    if groups[connection]:
        return False
    del groups[connection]
    return True


def expired_connections(
    clock: Clock, expired_s: float, producers: ProducerTable, consumers: ConsumerTable
) -> set[Connection]:
    """Finds the connections whose members have sent no heartbeat for so many seconds."""
    limit = clock.monotonic() - expired_s
    members = [m for _, group in producers for m in group]
    members += [m for _, group in consumers for m in group.members.values()]
    return {m.connection for m in members if m.seen_at < limit}
