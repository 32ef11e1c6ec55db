"""The tables of living clients; over real connections they are tested in tests/integration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from pocketmq.broker.groups.clients import (
    ConsumerGroup,
    ConsumerTable,
    Member,
    ProducerTable,
    expired_connections,
)
from pocketmq.protocol.bodies.clients import BROADCASTING, CLUSTERING, ConsumerData, Subscription
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection


class Told(list[tuple[str, int]]):
    """(group, members) whenever a group's members are to be told."""

    def note(self, name: str, group: ConsumerGroup) -> None:
        self.append((name, len(group.members)))


def member(
    clock: VirtualClock, client_id: str = "c", connection: Connection | None = None
) -> Member:
    return Member(client_id, connection or Connection(clock, {}), 0, 500, clock.monotonic())


def data_of(
    *topics: str, model: str = CLUSTERING, version: int = 1, tags: str = "*"
) -> ConsumerData:
    return ConsumerData(
        group_name="g",
        message_model=model,
        subscription_data_set=[Subscription.of_tags(t, tags, version) for t in topics],
    )


async def test_members_are_told_of_changes_only(clock: VirtualClock) -> None:
    told = Told()
    table = ConsumerTable(told.note)
    first, second = member(clock), member(clock, "d")
    table.heartbeat(data_of("T"), first)
    table.heartbeat(data_of("T"), first)
    table.heartbeat(data_of("T"), second)
    table.heartbeat(data_of("T", "U"), second)
    table.leave("g", first.connection)
    table.leave("g", first.connection)
    assert told == [("g", 1), ("g", 2), ("g", 2), ("g", 1)]
    table.leave("g", second.connection)
    assert len(told) == 4
    assert table.get("g") is None
    assert list(table) == []


async def test_broadcast_groups_are_told_nothing(clock: VirtualClock) -> None:
    told = Told()
    table = ConsumerTable(told.note)
    members = [member(clock), member(clock, "d")]
    for one in members:
        table.heartbeat(data_of("T", model=BROADCASTING), one)
    table.leave("g", members[0].connection)
    assert told == []


async def test_a_connection_leaves_all_its_groups(clock: VirtualClock) -> None:
    told = Told()
    table, producers = ConsumerTable(told.note), ProducerTable()
    one = member(clock)
    for name in ("g", "h"):
        table.heartbeat(ConsumerData(group_name=name), one)
        producers.heartbeat(name, one)
    assert [name for name, _ in producers] == ["g", "h"]
    table.leave_all(one.connection)
    producers.leave_all(one.connection)
    producers.leave("g", one.connection)
    assert (list(table), list(producers), producers.members("g")) == ([], [], [])


@pytest.mark.parametrize(
    ("version", "tags", "expected"), [(2, "b", "b"), (1, "b", "a"), (0, "b", "a")]
)
def test_a_subscription_is_replaced_by_a_newer_one(version: int, tags: str, expected: str) -> None:
    group = ConsumerGroup(data_of())
    assert group.subscribe(data_of("T", "U", tags="a").subscription_data_set)
    assert group.subscribe(data_of("T", version=version, tags=tags).subscription_data_set)
    assert list(group.subscriptions) == ["T"]
    assert group.subscriptions["T"].sub_string == expected
    assert not group.subscribe(data_of("T", version=9).subscription_data_set)


async def test_expired_are_those_without_a_heartbeat_for_longer(clock: VirtualClock) -> None:
    producers, consumers = ProducerTable(), ConsumerTable(lambda *_: None)
    producer, consumer = member(clock), member(clock)
    producers.heartbeat("p", producer)
    await clock.advance(60)
    consumer.seen_at = clock.monotonic()
    consumers.heartbeat(data_of("T"), consumer)
    await clock.advance(60)
    assert expired_connections(clock, 120, producers, consumers) == set()
    await clock.advance(1)
    assert expired_connections(clock, 120, producers, consumers) == {producer.connection}
    await clock.advance(60)
    assert len(expired_connections(clock, 120, producers, consumers)) == 2


async def test_a_member_is_shown_as_mqadmin_does(clock: VirtualClock) -> None:
    shown = member(clock, "id").describe()
    assert (shown.client_id, shown.language, shown.version) == ("id", "JAVA", 500)
    assert Member("id", Connection(clock, {}), 99, 1, 0.0).describe().language == "OTHER"


async def test_a_lost_connection_is_looked_for_in_its_own_groups_only(clock: VirtualClock) -> None:
    told = Told()
    producers, consumers = ProducerTable(), ConsumerTable(told.note)
    first, second = member(clock), member(clock, "d")
    for name in ("g", "h", "i"):
        producers.heartbeat(name, first)
        consumers.heartbeat(msgspec.structs.replace(data_of("T"), group_name=name), first)
    producers.heartbeat("g", second)
    consumers.heartbeat(data_of("T"), second)
    for table in (producers, consumers):
        groups = Visited(table._groups)
        table._groups = groups
        table.leave_all(second.connection)
        assert groups.visited == {"g"}
        assert not groups.was_walked
        table.leave_all(first.connection)
        assert not table._groups
        assert not table._of_connection
    assert producers.connection_of("c") is producers.connection_of("d") is None


class Visited(dict[str, Any]):
    """A table that notes which groups are looked at."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        super().__init__(table)
        self.visited: set[str] = set()
        self.was_walked = False

    def get(self, key: str, default: Any = None) -> Any:
        self.visited.add(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self.was_walked = True
        return super().__iter__()

    def items(self) -> Any:
        self.was_walked = True
        return super().items()

    def values(self) -> Any:
        self.was_walked = True
        return super().values()
