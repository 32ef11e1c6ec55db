"""Subscription groups are listed: 201, 352."""

from __future__ import annotations

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.protocol.bodies.clients import GroupConfigTable
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.groups import AllGroupConfigResponse
from pocketmq.protocol.requests.topics import AllGroupConfigRequest, GroupConfigRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import encoded_in_slices
from pocketmq.transport.connection import Connection, Handler


class GroupViewHandlers:
    """Lists consumer groups.

    Args:
        groups: of the broker.
        clock: for the turns of others.
    """

    def __init__(self, groups: GroupTable, clock: Clock) -> None:
        self._groups, self._clock = groups, clock

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configs,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.config,
        }

    async def all_configs(self, command: Command, _: Connection) -> Command:
        """201, in pages if they are asked for (`SubscriptionGroupManager#subGroupTable`)."""
        request = command.read(AllGroupConfigRequest)
        configs = list(self._groups)
        total = len(configs)
        if request.max_group_num is not None:
            configs.sort(key=lambda config: config.group_name)
            first = max(request.group_seq or 0, 0)
            configs = configs[first : first + max(request.max_group_num, 0)]
        shown = {g.group_name: g for g in configs}
        body = GroupConfigTable(
            subscription_group_table=shown,
            forbidden_table={g: t for g, t in self._groups.forbidden.items() if g in shown},
            data_version=self._groups.version,
        )
        return Command(
            ResponseCode.SUCCESS,
            header=AllGroupConfigResponse(total_group_num=total),
            body=await encoded_in_slices(self._clock, body),
        )

    def config(self, command: Command, connection: Connection) -> Command:
        """352: a group's settings."""
        request = command.read(GroupConfigRequest)
        group = self._groups.find(request.group, connection)
        return Command(ResponseCode.SUCCESS, body=group.encode())
