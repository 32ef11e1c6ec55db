from __future__ import annotations

from collections.abc import Callable

import pytest
from support.store.disks import refuse_changes

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.errors import GroupMissingError
from pocketmq.protocol.names.names import BUILT_IN_GROUPS
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock


@pytest.fixture
def groups(metadata: Metadata, clock: VirtualClock) -> GroupTable:
    return GroupTable(metadata, clock, Live(True))


def test_rocketmq_s_own_groups_are_there_and_not_saved(
    groups: GroupTable, metadata: Metadata
) -> None:
    assert {group.group_name for group in groups} == set(BUILT_IN_GROUPS)
    assert metadata.groups() == {}


def test_groups_are_made_on_first_use_and_kept(
    groups: GroupTable, metadata: Metadata, clock: VirtualClock
) -> None:
    assert groups.get("g") is None
    made = groups.find("g")
    assert made.retry_max_times == 16
    groups.put(GroupConfig(group_name="g", retry_max_times=3))
    again = GroupTable(metadata, clock, Live(False))
    assert again.find("g").retry_max_times == 3
    with pytest.raises(GroupMissingError, match="autoCreateSubscriptionGroup is off"):
        again.find("h")


@pytest.mark.parametrize("name", ["", " ", "a b", "é", "x" * 121, "a/b", "../x"])
def test_no_group_is_made_of_a_name_that_is_none(
    groups: GroupTable, metadata: Metadata, name: str
) -> None:
    with pytest.raises(GroupMissingError, match="cannot be created"):
        groups.find(name)
    assert metadata.groups() == {}


def test_versions_count_changes_only(groups: GroupTable) -> None:
    groups.put(GroupConfig(group_name="g"))
    groups.put(GroupConfig(group_name="g"))
    assert groups.version.counter == 1
    assert groups.remove("g")
    assert not groups.remove("g")
    assert groups.version.counter == 2


def test_what_could_not_be_saved_did_not_happen(
    groups: GroupTable, disk_full: Callable[[], None]
) -> None:
    disk_full()
    with pytest.raises(WriteFailedError):
        groups.put(GroupConfig(group_name="g", attributes={"note": "x" * 100_000}))
    assert groups.get("g") is None
    assert groups.version.counter == 0


def test_a_full_disk_does_not_keep_groups_from_being_used(
    groups: GroupTable, metadata: Metadata, clock: VirtualClock
) -> None:
    for table in ("groups", "state"):
        refuse_changes(metadata, table)
    assert groups.find("a").group_name == "a"
    assert [g.group_name for g in groups.find_all(["b", "c"])] == ["b", "c"]
    with pytest.raises(WriteFailedError):
        groups.save()
    for table in ("groups", "state"):
        metadata._db.execute(f"DROP TRIGGER refuse_{table}")
    assert groups.remove("c")
    groups.save()
    groups.save()
    again = GroupTable(metadata, clock, Live(True))
    assert {g.group_name for g in again} == {g.group_name for g in groups} >= {"a", "b"}
    assert again.version == groups.version


def test_version_and_what_is_forbidden_are_kept(
    groups: GroupTable, metadata: Metadata, clock: VirtualClock
) -> None:
    groups.put(GroupConfig(group_name="g"), GroupConfig(group_name="h"))
    assert groups.may_read("g", "T")
    groups.set_readable("g", "T", readable=False)
    groups.set_readable("g", "T", readable=False)
    assert (groups.may_read("g", "T"), groups.may_read("g", "U")) == (False, True)
    assert groups.version.counter == 2
    again = GroupTable(metadata, clock, Live(False))
    assert again.version == groups.version
    assert not again.may_read("g", "T")
    again.set_readable("g", "T", readable=True)
    assert again.forbidden == {}
    again.set_readable("g", "T", readable=False)
    again.remove("g")
    assert again.may_read("g", "T")
