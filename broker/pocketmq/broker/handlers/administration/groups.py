"""Subscription groups are created, changed and deleted: 200, 207, 225, 353."""

from __future__ import annotations

import msgspec

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.popping.deletions import PopDeletions
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.refusals import topic_missing
from pocketmq.broker.topics.attributes import GROUP_ATTRIBUTES, changed_attributes
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX, TopicTable
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.groups import GroupConfigList, GroupForbidden
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, response_error
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.groups import GroupForbiddenRequest
from pocketmq.protocol.requests.topics import DeleteGroupRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

_INT_MAX = (1 << 31) - 1


class GroupHandlers:
    """Creates, changes and deletes consumer groups.

    Args:
        topics, groups, offsets: of the broker.
        progress: what groups have pulled.
        pops: forgets deleted groups.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        progress: PullProgress,
        pops: PopDeletions,
    ) -> None:
        self._pops = pops
        self._topics, self._groups = topics, groups
        self._offsets, self._progress = offsets, progress

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.update_list,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbidden,
        }

    def update(self, command: Command, _: Connection) -> Command:
        """200: creates or changes a group."""
        self._put([GroupConfig.of_request(command.body)])
        return Command(ResponseCode.SUCCESS)

    def update_list(self, command: Command, _: Connection) -> Command:
        """225: creates or changes all of the groups or none."""
        self._put(GroupConfigList.of_request(command.body).group_config_list)
        return Command(ResponseCode.SUCCESS)

    def _put(self, configs: list[GroupConfig]) -> None:
        for config in configs:
            _check(config)
            known = self._groups.get(config.group_name)
            attributes = None if known is None else known.attributes
            config.attributes = changed_attributes(GROUP_ATTRIBUTES, attributes, config.attributes)
        self._groups.check_room(configs)
        self._groups.put(*configs)
        for config in configs:
            self._grow_retry_topic(config)

    def _grow_retry_topic(self, config: GroupConfig) -> None:
        """Widens a group's existing retry topic to the group's number of retry queues.

        It is not shrunk: its queues may hold messages. RocketMQ leaves it as it is, and members
        never see what is put into the new queues.
        """
        topic = self._topics.get(names.retry_topic(config.group_name))
        nums = config.retry_queue_nums
        if topic is not None and nums > topic.write_queue_nums:
            read_nums = max(nums, topic.read_queue_nums)
            self._topics.put(
                msgspec.structs.replace(topic, read_queue_nums=read_nums, write_queue_nums=nums)
            )

    def delete(self, command: Command, _: Connection) -> Command:
        """207; deleting what is not there is no error. Its topics are for 215 to delete."""
        request = command.read(DeleteGroupRequest)
        self._groups.remove(request.group_name)
        self._progress.remove_groups({request.group_name})
        self._pops.group_deleted(request.group_name)
        if request.clean_offset:
            self._offsets.remove_group(request.group_name)
        return Command(ResponseCode.SUCCESS)

    def forbidden(self, command: Command, _: Connection) -> Command:
        """353: whether a group may read a topic, set before if so asked."""
        request = command.read(GroupForbiddenRequest)
        group, topic = request.group, request.topic
        if request.readable is not None:
            if self._groups.get(group) is None:
                raise response_error(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker: {group}"
                )
            if topic not in self._topics:
                raise topic_missing(topic)
            self._groups.confirm([group])
            self._groups.set_readable(group, topic, readable=request.readable)
        body = GroupForbidden(
            group=group, topic=topic, readable=self._groups.may_read(group, topic)
        )
        return Command(ResponseCode.SUCCESS, body=body.encode())


def _check(config: GroupConfig) -> None:
    """Refuses settings that no group can have."""
    try:
        names.check_group(config.group_name)
    except IllegalNameError as e:
        raise _invalid(str(e)) from e
    if not 0 <= config.retry_queue_nums <= QUEUE_NUMS_MAX:
        raise _invalid(
            f"retryQueueNums is {config.retry_queue_nums}: it must be between 0 (no retries) and "
            f"{QUEUE_NUMS_MAX}"
        )
    if not 0 <= config.retry_max_times <= _INT_MAX:
        raise _invalid(
            f"retryMaxTimes is {config.retry_max_times}: it must be between 0 (to the dead letters "
            f"at once) and {_INT_MAX}"
        )


def _invalid(remark: str) -> ResponseError:
    return response_error(ResponseCode.INVALID_PARAMETER, remark)
