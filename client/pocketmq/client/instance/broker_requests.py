"""The requests that brokers make of a client (`client/impl/ClientRemotingProcessor`)."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from pocketmq.client.instance.heartbeat import InspectedConsumer, InstanceGroups
from pocketmq.client.instance.namespacing import take_out
from pocketmq.protocol.bodies.groups import (
    PROP_CLIENT_VERSION,
    PROP_CONSUME_TYPE,
    PROP_NAMESERVER_ADDR,
    ConsumerStatus,
    ResetOffsets,
    RunningInfo,
)
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.codes import RequestCode, ResponseCode, Version
from pocketmq.protocol.errors import ContentError, ResponseError, response_error
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.protocol.requests.groups import (
    ClientResetOffsetRequest,
    ClientStatusRequest,
    ConsumeDirectlyRequest,
    RunningInfoRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

ValueT = TypeVar("ValueT")


class BrokerRequests:
    """Answers brokers for the consumers of an instance: 220, 221, 307, 309.

    Args:
        groups: the consumers.
        namesrv: the name servers' addresses, which the running info shows.
        namespace: taken out of the names that brokers use, and put into those of the answers.
    """

    def __init__(
        self, groups: InstanceGroups, namesrv: Sequence[str], namespace: Namespace | None = None
    ) -> None:
        self._groups, self._namesrv = groups, namesrv
        self._namespace = namespace or Namespace()
        self._bare = self._namespace.unwrap

    def table(self) -> dict[int, Handler]:
        """Returns the handlers by request code."""
        return {
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    async def reset_offsets(self, command: Command, _: Connection) -> None:
        """Moves a consumer to other offsets (220, one-way, from brokers that keep no resets)."""
        request = command.read(ClientResetOffsetRequest)
        inspection = self._groups.inspections.get(self._bare(request.group))
        if inspection is None:
            return
        table = ResetOffsets.decode(command.body).offset_table
        await inspection.move(
            {
                MessageQueue(self._bare(key.topic), key.broker_name, key.queue_id): offset
                for key, offset in table.items()
                if key.topic == request.topic
            }
        )

    def status(self, command: Command, _: Connection) -> Command:
        """Answers with a consumer's offsets (221); with none for an unknown or pull consumer."""
        request = command.read(ClientStatusRequest)
        inspection = self._groups.inspections.get(self._bare(request.group))
        offsets = {} if inspection is None else inspection.offsets_of(self._bare(request.topic))
        body = ConsumerStatus(message_queue_table=self._on_wire(offsets))
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def running_info(self, command: Command, _: Connection) -> Command:
        """Answers with a consumer's running info (307)."""
        request = command.read(RunningInfoRequest)
        member = self._groups.consumers.get(self._bare(request.consumer_group))
        if member is None:
            raise _not_here(request.consumer_group)
        data = member.describe()
        inspection = self._groups.inspections.get(self._bare(request.consumer_group))
        if inspection is None:
            info = RunningInfo(subscription_set=data.subscription_data_set)
        else:
            info = inspection.running_info()
        if self._namespace:
            self._put_in(info)
        info.properties |= {
            PROP_NAMESERVER_ADDR: ";".join(self._namesrv) + ";",
            PROP_CONSUME_TYPE: data.consume_type,
            PROP_CLIENT_VERSION: Version.V5_5_0.name,
        }
        if request.jstack_enable:
            info.jstack = _stacks()
        return Command(ResponseCode.SUCCESS, body=info.encode())

    async def consume_directly(self, command: Command, _: Connection) -> Command:
        """Makes a consumer handle one message (309)."""
        request = command.read(ConsumeDirectlyRequest)
        inspection = self._inspection(request.consumer_group)
        message = next(decode_records(command.body, request.broker_name or ""), None)
        if message is None:
            raise ContentError("no message came along that could be handled")
        take_out(self._namespace, message)
        result = await inspection.handle_directly(message)
        return Command(ResponseCode.SUCCESS, body=result.encode())

    def _put_in(self, info: RunningInfo) -> None:
        wrap = self._namespace.wrap
        info.subscription_set = [
            msgspec.structs.replace(s, topic=wrap(s.topic)) for s in info.subscription_set
        ]
        info.mq_table = self._on_wire(info.mq_table)
        info.status_table = {wrap(topic): status for topic, status in info.status_table.items()}

    def _on_wire(self, table: Mapping[QueueKey, ValueT]) -> dict[QueueKey, ValueT]:
        wrap = self._namespace.wrap
        return {
            msgspec.structs.replace(key, topic=wrap(key.topic)): value
            for key, value in table.items()
        }

    def _inspection(self, group: str) -> InspectedConsumer:
        inspection = self._groups.inspections.get(self._bare(group))
        if inspection is None:
            raise _not_here(group)
        return inspection


def _not_here(group: str) -> ResponseError:
    return response_error(
        ResponseCode.SYSTEM_ERROR,
        f"The Consumer Group <{group}> not exist in this consumer",
    )


def _stacks() -> str:
    """Renders the stacks of tasks and threads, as Java's jstack does."""
    parts = []
    for task in asyncio.all_tasks():
        frames = [line for f in task.get_stack() for line in traceback.format_stack(f, limit=1)]
        parts.append(f"task {task.get_name()}\n{''.join(frames)}")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"thread {names.get(ident, ident)}\n{stack}")
    return "\n".join(parts)
