"""Requests that the broker sends to its clients (`broker/client/net/Broker2Client`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from pocketmq.broker.groups.clients import ConsumerGroup, ConsumerTable, Member
from pocketmq.protocol.bodies.groups import ConsumerStatus, ResetOffsetList, ResetOffsets
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.codes import LanguageCode, ResponseCode, Version
from pocketmq.protocol.errors import OperatingError, PeerError, ResponseError, response_error
from pocketmq.protocol.requests.groups import (
    ClientResetOffsetRequest,
    ClientStatusRequest,
    ResetOffsetRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.transport.errors import CallTimeoutError

log = logging.getLogger("pocketmq.broker")

CALL_TIMEOUT_MS = 10_000
"""How long a client may take to answer what somebody asked it through the broker."""

STATUS_TIMEOUT_MS = 5_000
"""The same where all members of a group are asked."""


NAMED_MAX = 10
"""Members of a group that a refusal names."""


class ClientCalls:
    """Sends requests to living consumers, over the connections that they opened.

    Args:
        consumers: who there is.
    """

    def __init__(self, consumers: ConsumerTable) -> None:
        self._consumers = consumers

    async def ask(
        self, group: str, client_id: str, request: RequestHeader, body: bytes = b""
    ) -> Command:
        """Asks one member, and returns its answer whatever its code.

        Raises:
            ResponseError: 1, there is no such member, it is too old or was lost; 207, it does not
                answer in time.
        """
        member = self._member(group, client_id)
        if member.version < Version.V3_1_8_SNAPSHOT:
            raise _failed(
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, please "
                f"upgrade it to V3_1_8_SNAPSHOT"
            )
        command = Command(request.code, header=request, body=body)
        try:
            answer = await member.connection.call(command, CALL_TIMEOUT_MS)
        except CallTimeoutError as e:
            raise response_error(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                f"consumer <{group}> <{client_id}> Timeout: {e}",
            ) from e
        except OperatingError as e:
            raise _failed(f"invoke consumer <{group}> <{client_id}> Exception: {e}") from e
        return Command(answer.code, remark=answer.remark, body=answer.body)

    def _member(self, group: str, client_id: str) -> Member:
        members = self._consumers.get(group)
        for member in members.members.values() if members is not None else ():
            if member.client_id == client_id:
                return member
        known = (
            ", ".join(m.client_id for m in list(members.members.values())[:10]) if members else ""
        )
        raise _failed(
            f"The Consumer <{group}> <{client_id}> not online: "
            + (f"members of the group are {known}" if known else "the group has no members here")
        )

    def reset(self, request: ResetOffsetRequest, offsets: Mapping[QueueKey, int]) -> None:
        """Tells all members of a group to continue at other offsets.

        Raises:
            ResponseError: 206, there are none; 1, one is too old to understand.
        """
        group = self._consumers.get(request.group)
        if group is None:
            raise response_error(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {request.group} Topic: "
                f"{request.topic} Timestamp: {request.timestamp}",
            )
        _check_versions(group)
        header = ClientResetOffsetRequest(
            group=request.group,
            topic=request.topic,
            timestamp=request.timestamp,
            is_force=request.is_force,
        )
        for member in list(group.members.values()):
            is_c = member.language == LanguageCode.CPP
            body = ResetOffsetList.of(offsets) if is_c else ResetOffsets(offset_table=dict(offsets))
            member.connection.notify(Command(header.code, header=header, body=body.encode()))

    async def status(self, group: str, topic: str, client_id: str | None) -> ConsumerStatus:
        """Asks members for their offsets in a topic; leaves out those that do not answer.

        Args:
            group, topic: which.
            client_id: only this member.

        Raises:
            ResponseError: 1, there are none, or one is too old to understand.
        """
        members = self._consumers.get(group)
        if members is None:
            raise _failed(f"No Any Consumer online in the consumer group: [{group}]")
        _check_versions(members)
        asked = [m for m in members.members.values() if client_id in (None, "", m.client_id)]
        answers = await asyncio.gather(*(self._status_of(m, group, topic) for m in asked))
        return ConsumerStatus(
            consumer_table={
                member.client_id: answer
                for member, answer in zip(asked, answers, strict=True)
                if answer is not None
            }
        )

    async def _status_of(
        self, member: Member, group: str, topic: str
    ) -> dict[QueueKey, int] | None:
        header = ClientStatusRequest(topic=topic, group=group)
        command = Command(header.code, header=header)
        try:
            answer = await member.connection.call(command, STATUS_TIMEOUT_MS)
            if answer.code == ResponseCode.SUCCESS and answer.body:
                return ConsumerStatus.decode(answer.body).message_queue_table
            reason: object = answer.remark
        except (OperatingError, PeerError) as e:
            reason = e
        log.info(
            "%s of group %s does not tell where it stands: %s", member.client_id, group, reason
        )
        return None


def _check_versions(group: ConsumerGroup) -> None:
    for member in group.members.values():
        if member.version < Version.V3_0_7_SNAPSHOT:
            raise _failed(
                f"the client does not support this feature. version={member.version} of "
                f"{member.client_id}: it must be V3_0_7 or later"
            )


def _failed(remark: str) -> ResponseError:
    return response_error(ResponseCode.SYSTEM_ERROR, remark)
