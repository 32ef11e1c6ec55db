"""Requests that are passed on to consumers, which answer them: 223, 307, 309."""

from __future__ import annotations

from pocketmq.broker.groups.client_calls import ClientCalls
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import UsageError, response_error
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.requests.groups import (
    ConsumeDirectlyRequest,
    ConsumerStatusRequest,
    RunningInfoRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler


class RelayHandlers:
    """Passes requests on to a group's consumers, and their answers back.

    Args:
        broker_name: goes with a message that a consumer is to handle.
        topics, groups, store: of the broker.
        calls: the way to the consumers.
    """

    def __init__(
        self,
        broker_name: str,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        calls: ClientCalls,
    ) -> None:
        self._broker_name = broker_name
        self._topics, self._groups, self._store = topics, groups, store
        self._calls = calls

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    async def consumer_status(self, command: Command, _: Connection) -> Command:
        """223: the offsets that a group's members hold."""
        request = command.read(ConsumerStatusRequest)
        status = await self._calls.status(request.group, request.topic, request.client_addr)
        return Command(ResponseCode.SUCCESS, body=status.encode())

    async def running_info(self, command: Command, _: Connection) -> Command:
        """307: what a member says of itself."""
        request = command.read(RunningInfoRequest)
        return await self._calls.ask(request.consumer_group, request.client_id, request)

    async def consume_directly(self, command: Command, _: Connection) -> Command:
        """309: the message goes along; its offset stays what it is."""
        request = command.read(ConsumeDirectlyRequest)
        if not request.msg_id or not request.client_id:
            raise response_error(
                ResponseCode.INVALID_PARAMETER,
                "msgId and clientId are needed: which message is to be handled by whom",
            )
        try:
            offset = parse_offset_msg_id(request.msg_id).physical_offset
        except UsageError as e:
            raise response_error(ResponseCode.INVALID_PARAMETER, str(e)) from e
        record = self._store.read_physical(offset)
        if not record:
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message {request.msg_id}: this broker holds nothing there",
            )
        request.broker_name = self._broker_name
        topic = self._topics.get(request.topic or "")
        request.topic_sys_flag = None if topic is None else topic.topic_sys_flag
        group = self._groups.get(request.consumer_group)
        request.group_sys_flag = None if group is None else group.group_sys_flag
        return await self._calls.ask(request.consumer_group, request.client_id, request, record)
