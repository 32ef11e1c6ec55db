"""Who is connected: producer and consumer groups by heartbeat (`broker/client/*Manager`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import msgspec

from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    ClientConnection,
    ConsumerData,
    Subscription,
)
from pocketmq.protocol.codes import LANGUAGE_NAMES
from pocketmq.transport.clock import Clock
from pocketmq.transport.connection import Connection

log = logging.getLogger("pocketmq.broker")


class Member(msgspec.Struct, eq=False):
    """One client of a group, by its connection."""

    client_id: str
    connection: Connection
    language: int
    version: int
    seen_at: float

    def describe(self) -> ClientConnection:
        """As the connection lists of mqadmin show it."""
        return ClientConnection(
            client_id=self.client_id,
            client_addr=self.connection.remote_address,
            language=LANGUAGE_NAMES.get(self.language, "OTHER"),
            version=self.version,
        )


class ProducerTable:
    """The living producers by group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Connection, Member]] = {}

    def heartbeat(self, group: str, member: Member) -> None:
        """A producer is there."""
        self._groups.setdefault(group, {})[member.connection] = member

    def leave(self, group: str, connection: Connection) -> None:
        """A producer says goodbye."""
        members = self._groups.get(group)
        if members is not None:
            members.pop(connection, None)
            if not members:
                del self._groups[group]

    def leave_all(self, connection: Connection) -> None:
        """A connection is gone."""
        for group in [g for g, members in self._groups.items() if connection in members]:
            self.leave(group, connection)

    def members(self, group: str) -> list[Member]:
        """The living producers of a group."""
        return list(self._groups.get(group, {}).values())

    def __iter__(self) -> Iterator[tuple[str, list[Member]]]:
        return ((group, list(members.values())) for group, members in self._groups.items())


class ConsumerGroup:
    """The living consumers of a group, and what the last heartbeat said of it."""

    def __init__(self, data: ConsumerData) -> None:
        self.data = data
        self.members: dict[Connection, Member] = {}
        self.subscriptions: dict[str, Subscription] = {}

    def subscribe(self, subscriptions: list[Subscription]) -> bool:
        """Takes the subscriptions of the newest heartbeat; True if the set of topics changed.

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


class ConsumerTable:
    """The living consumers by group.

    Args:
        on_members_changed: called with a group whose members or topics changed, to tell them.
    """

    def __init__(self, on_members_changed: Callable[[str, ConsumerGroup], object]) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._on_members_changed = on_members_changed

    def get(self, group: str) -> ConsumerGroup | None:
        """A group that has living consumers."""
        return self._groups.get(group)

    def __iter__(self) -> Iterator[tuple[str, ConsumerGroup]]:
        return iter(self._groups.items())

    def heartbeat(self, data: ConsumerData, member: Member) -> None:
        """A consumer is there, and this is what it wants."""
        group = self._groups.get(data.group_name)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(data)
        group.data = data
        is_new = member.connection not in group.members
        group.members[member.connection] = member
        topics_changed = group.subscribe(data.subscription_data_set)
        if (is_new or topics_changed) and data.message_model != BROADCASTING:
            self._on_members_changed(data.group_name, group)

    def leave(self, name: str, connection: Connection) -> None:
        """A consumer says goodbye or is gone."""
        group = self._groups.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return
        if not group.members:
            del self._groups[name]
        elif group.data.message_model != BROADCASTING:
            self._on_members_changed(name, group)

    def leave_all(self, connection: Connection) -> None:
        """A connection is gone."""
        for name in [n for n, group in self._groups.items() if connection in group.members]:
            self.leave(name, connection)


def expired_connections(
    clock: Clock, expired_s: float, producers: ProducerTable, consumers: ConsumerTable
) -> set[Connection]:
    """Connections whose members have sent no heartbeat for so many seconds."""
    limit = clock.monotonic() - expired_s
    members = [m for _, group in producers for m in group]
    members += [m for _, group in consumers for m in group.members.values()]
    return {m.connection for m in members if m.seen_at < limit}
