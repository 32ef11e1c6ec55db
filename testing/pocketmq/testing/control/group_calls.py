"""The operations of the control API on consumer groups."""

from __future__ import annotations

from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.names.names import BUILT_IN_GROUPS, dlq_topic, retry_topic
from pocketmq.runtime.text import counted
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.models import (
    Done,
    DrainRequest,
    Group,
    GroupRequest,
    GroupResetRequest,
    Groups,
    Lag,
    QueueLag,
)
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import Inspection
from pocketmq.testing.settings import group_config


class GroupCalls:
    """Carries out operations on consumer groups of all brokers.

    Args:
        core: the cluster.
        inspection: reads the state of the brokers.
        clients: the control API's clients, which reset offsets.
    """

    def __init__(self, core: Core, inspection: Inspection, clients: ControlClients) -> None:
        self._core, self._inspection, self._clients = core, inspection, clients

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation("GET", "/groups", "listGroups", "All groups.", self.listed, Groups),
            Operation("GET", "/groups/{group}", "getGroup", "One group.", self.one, Group),
            Operation(
                "PUT", "/groups/{group}", "putGroup",
                "Make or change a group and its retry topic.",
                self.put, Group, body=GroupRequest,
            ),
            Operation(
                "DELETE", "/groups/{group}", "deleteGroup",
                "Delete a group with its offsets, retries and dead letters.", self.delete, Done,
            ),
            Operation(
                "GET", "/groups/{group}/lag", "lag",
                "What a group has not finished, as far as it has committed.", self.lag, Lag,
            ),
            Operation(
                "POST", "/groups/{group}/drain", "drain",
                "Wait until a group has finished all that its topics hold.",
                self.drain, Lag, body=DrainRequest,
            ),
            Operation(
                "POST", "/groups/{group}/reset", "resetGroup",
                "Put a group elsewhere; consumers that run go on there.",
                self.reset, Done, body=GroupResetRequest,
            ),
            Operation(
                "POST", "/groups/{group}/empty", "emptyGroup",
                "Remove a group's offsets, retries and dead letters: as if it had never consumed.",
                self.empty, Done,
            ),
        ]  # fmt: skip

    async def listed(self, _: Call) -> Groups:
        """Lists all groups but the built-in ones."""
        return Groups(groups=[self._group(name) for name in sorted(self._names())])

    async def one(self, call: Call) -> Group:
        """Shows a group."""
        return self._known(call)

    async def put(self, call: Call) -> Group:
        """Makes or changes a group."""
        request = call.body
        assert isinstance(request, GroupRequest)
        config = group_config(call.path["group"], request.settings)
        await self._core.put([], [config])
        return self._group(config.group_name)

    async def delete(self, call: Call) -> Done:
        """Deletes a group."""
        group = self._known(call)
        await self._core.remove(_topics_of(group.name), {group.name})
        done = Done(done=f"group {group.name} is deleted")
        done.warnings += _of_members(group)
        return done

    async def lag(self, call: Call) -> Lag:
        """Shows the messages that a group has not finished."""
        return self._lag(self._known(call).name)

    async def drain(self, call: Call) -> Lag:
        """Waits until a group has finished all messages."""
        name, request = call.path["group"], call.body
        assert isinstance(request, DrainRequest)
        try:
            await self._inspection.drain(name, request.timeout_ms / 1000)
        except AssertionError as e:
            raise ProblemError(
                409,
                "The group has not finished",
                str(e),
                "see its members, and what they have not committed (GET /groups/{group}/lag)",
            ) from e
        return Lag(group=name, left=0, queues=[])

    async def reset(self, call: Call) -> Done:
        """Resets the offsets of a group."""
        group, request = self._known(call), call.body
        assert isinstance(request, GroupResetRequest)
        if (request.to is None) == (request.timestamp_ms is None):
            raise UsageError("give one of to and timestampMs")
        topics = group.topics if request.topic is None else [request.topic]
        admin = await self._clients.admin()
        count = 0
        for topic in topics:
            if request.timestamp_ms is not None:
                rows = await admin.reset_offsets(
                    group.name, topic, timestamp_ms=request.timestamp_ms
                )
            else:
                to = "earliest" if request.to == "beginning" else "latest"
                rows = await admin.reset_offsets(group.name, topic, to=to)  # type: ignore[arg-type]
            count += len(rows)
        return Done(done=f"group {group.name} goes on elsewhere in {counted(count, 'queue')}")

    async def empty(self, call: Call) -> Done:
        """Removes the offsets of a group, so that it begins as a new one."""
        group = self._known(call)
        configs = (broker.groups.get(group.name) for broker in self._core.brokers())
        config = next((config for config in configs if config is not None), None)
        await self._core.remove(_topics_of(group.name), {group.name})
        await self._core.put([], [config or group_config(group.name, {})])
        done = Done(done=f"group {group.name} has no offsets, retries and dead letters any more")
        done.warnings += _of_members(group)
        return done

    def _names(self) -> set[str]:
        found = self._core.names()[1] | set(self._inspection.groups())
        return found - set(BUILT_IN_GROUPS)

    def _known(self, call: Call) -> Group:
        name = call.path["group"]
        if name not in self._names():
            raise not_found("group", name, "GET /groups")
        return self._group(name)

    def _group(self, name: str) -> Group:
        inspection = self._inspection
        return Group(
            name=name,
            members=inspection.members(name),
            topics=inspection.topics_of(name),
            lag=sum(lag.left for lag in inspection.lags(name)),
            dead_letters=inspection.count(dlq_topic(name)),
        )

    def _lag(self, name: str) -> Lag:
        lags = self._inspection.lags(name)
        queues = [
            QueueLag(
                topic=lag.topic,
                broker=lag.broker,
                queue=lag.queue_id,
                committed=lag.committed,
                begin=lag.begin,
                end=lag.end,
                left=lag.left,
            )
            for lag in lags
        ]
        return Lag(group=name, left=sum(lag.left for lag in lags), queues=queues)


def _topics_of(group: str) -> set[str]:
    return {retry_topic(group), dlq_topic(group)}


def _of_members(group: Group) -> list[str]:
    if not group.members:
        return []
    return [
        f"{counted(len(group.members), 'consumer')} of {group.name} will commit their offsets "
        "again: close consumers before"
    ]
