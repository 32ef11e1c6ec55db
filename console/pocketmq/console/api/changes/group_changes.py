"""The operations that create, change and delete groups."""

from __future__ import annotations

from pocketmq.client import Admin
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.group_changes import (
    GroupChange,
    GroupDeleted,
    GroupDeletion,
    GroupSettings,
    GroupSettingsTable,
    LagOfTopic,
    NewGroup,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.changes.members import member_ids
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.errors import GroupMissingError
from pocketmq.protocol.names.names import BUILT_IN_GROUPS, dlq_topic


class GroupChanges:
    """Creates, changes and deletes groups.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        one = f"{PREFIX}/groups/{{group}}"
        return [
            Operation(
                "GET", f"{one}/settings", "getGroupSettings",
                "The settings of a group on each broker.",
                serve(self.settings), GroupSettingsTable,
            ),
            Operation(
                "POST", one, "createGroup", "Create a group; 409 if there is one.",
                serve(self.create), GroupSettingsTable, body=NewGroup, status=201,
            ),
            Operation(
                "PUT", one, "changeGroup", "Change settings of a group.",
                serve(self.change), GroupSettingsTable, body=GroupChange,
            ),
            Operation(
                "GET", f"{one}/deletion", "previewGroupDeletion",
                "What would go with a group: offsets, dead letters, and who is connected.",
                serve(self.deletion), GroupDeletion,
            ),
            Operation(
                "DELETE", one, "deleteGroup",
                "Delete a group with its offsets, retries and dead letters.",
                serve(self.delete), GroupDeleted,
            ),
        ]  # fmt: skip

    async def settings(self, clients: Clients, call: Call) -> GroupSettingsTable:
        """Shows the settings of a group."""
        return await _settings(clients.admin, call.path["group"])

    async def create(self, clients: Clients, call: Call) -> GroupSettingsTable:
        """Creates a group on all brokers."""
        self._callers.check_writes()
        name, new = call.path["group"], call.body
        assert isinstance(new, NewGroup)
        admin = clients.admin
        if name in await admin.groups():
            raise ProblemError(
                409, "The group exists", f"there is a group {name!r}", "choose another name"
            )
        await admin.create_group(
            GroupConfig(
                group_name=name,
                consume_enable=new.may_consume,
                consume_broadcast_enable=new.may_broadcast,
                consume_message_orderly=new.is_orderly,
                retry_max_times=new.retry_max_times,
                retry_queue_nums=new.retry_queues,
            )
        )
        return await _settings(admin, name)

    async def change(self, clients: Clients, call: Call) -> GroupSettingsTable:
        """Changes a group on the brokers that have it."""
        self._callers.check_writes()
        name, change = call.path["group"], call.body
        assert isinstance(change, GroupChange)
        _check_own(name, "changed")
        admin = clients.admin
        try:
            await admin.update_group(
                name,
                consume_enable=change.may_consume,
                consume_broadcast_enable=change.may_broadcast,
                consume_message_orderly=change.is_orderly,
                retry_max_times=change.retry_max_times,
                retry_queue_nums=change.retry_queues,
            )
        except GroupMissingError as e:
            raise _missing(name) from e
        return await _settings(admin, name)

    async def deletion(self, clients: Clients, call: Call) -> GroupDeletion:
        """Shows what would go with a group."""
        return await _deletion(clients.admin, call.path["group"])

    async def delete(self, clients: Clients, call: Call) -> GroupDeleted:
        """Deletes a group."""
        self._callers.check_writes()
        name = call.path["group"]
        _check_own(name, "deleted")
        admin = clients.admin
        try:
            await admin.group_configs(name)
            dead_letters = await _count(admin, dlq_topic(name))
            await admin.delete_group(name, clean_offset=True)
        except GroupMissingError as e:
            raise _missing(name) from e
        return GroupDeleted(deleted=name, dead_letters=dead_letters)


async def _settings(admin: Admin, name: str) -> GroupSettingsTable:
    try:
        configs = await admin.group_configs(name)
    except GroupMissingError as e:
        raise _missing(name) from e
    names = {row.address: row.broker_name for row in await admin.brokers()}
    return GroupSettingsTable(
        group=name,
        brokers={
            names.get(address, address): GroupSettings(
                may_consume=config.consume_enable,
                may_broadcast=config.consume_broadcast_enable,
                is_orderly=config.consume_message_orderly,
                retry_max_times=config.retry_max_times,
                retry_queues=config.retry_queue_nums,
            )
            for address, config in configs.items()
        },
    )


async def _deletion(admin: Admin, name: str) -> GroupDeletion:
    try:
        await admin.group_configs(name)
    except GroupMissingError as e:
        raise _missing(name) from e
    left: dict[str, int] = {}
    for lag in await admin.consume_stats(name):
        left[lag.queue.topic] = left.get(lag.queue.topic, 0) + lag.lag
    return GroupDeletion(
        group=name,
        members=await member_ids(admin, name),
        topics=[LagOfTopic(topic=topic, left=left[topic]) for topic in sorted(left)],
        dead_letters=await _count(admin, dlq_topic(name)),
    )


def _check_own(name: str, done: str) -> None:
    """Refuses groups that each broker has for tools.

    Raises:
        ProblemError: 403.
    """
    if name in BUILT_IN_GROUPS:
        raise ProblemError(
            403, "The group is the brokers' own", f"group {name} cannot be {done}",
            "choose a group of applications",
        )  # fmt: skip


def _missing(name: str) -> ProblemError:
    return not_found("group", name, f"GET {PREFIX}/groups")


async def _count(admin: Admin, topic: str) -> int:
    try:
        return sum(row.count for row in await admin.topic_stats(topic))
    except UnknownTopicError:
        return 0
