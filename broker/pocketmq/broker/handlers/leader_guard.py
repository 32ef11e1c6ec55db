"""What stands before the handlers of a leader: its lease, and changes that followers must have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import wraps

from pocketmq.broker.replication.leading import Leading
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, response_error
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.transport.connection import Connection, Handler, Reply

SENDS = frozenset(
    {
        Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.BULK_APPEND,
        Code.CONSUMER_SEND_MSG_BACK, Code.RECALL_MESSAGE, Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
    }
)  # fmt: skip
"""Requests that store messages."""

_TIED = SENDS | {
    Code.PULL_MESSAGE, Code.BULK_PULL, Code.LITE_PULL_MESSAGE, Code.POP_MESSAGE, Code.PEEK_MESSAGE,
    Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME,
    Code.END_TRANSACTION, Code.HEART_BEAT, Code.POLLING_INFO, Code.NOTIFICATION, Code.BACKUP_LOGS,
    Code.SWITCH_LEADER, Code.CONTROLLER_ELECT_MASTER,  # whoever is asked leads no more
}  # fmt: skip
"""Requests that change no metadata, or whose answers wait for their records by themselves."""

_TELLING = frozenset(
    {
        Code.QUERY_CONSUMER_OFFSET, Code.UPDATE_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ,
        Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.UPDATE_BROKER_CONFIG,
    }
)  # fmt: skip
"""Requests whose answers tell what was changed before: a group's offset must not go back, and a
change that is asked for again changes nothing, though the first one is not replicated yet."""

NEVER = -1
"""A count of changes that a leader never has."""

_OF_MEMBERS = frozenset(
    {Code.JOIN_BROKER_SET, Code.FOLLOW_BROKER, Code.DESCRIBE_MEMBER, Code.ELECT_MEMBER}
)


class LeaderGuard:
    """Refuses what only a leader with a lease may do; has answers wait for the in-sync set.

    Args:
        leading: the leadership.
        min_in_sync: so many members must have a message, the leader among them; else it is refused
            before it is stored.
    """

    def __init__(self, leading: Leading, min_in_sync: int) -> None:
        self._leading, self._min_in_sync = leading, min_in_sync

    def guard(self, code: int, handler: Handler) -> Handler:
        """Returns the guarded handler of a request code."""
        if code in _OF_MEMBERS:
            return handler
        leading, is_send, is_tied = self._leading, code in SENDS, code in _TIED
        is_telling = code in _TELLING

        @wraps(handler)
        def guarded_handler(command: Command, connection: Connection) -> Reply:
            if not leading.is_serving:
                raise response_error(
                    ResponseCode.SERVICE_NOT_AVAILABLE,
                    "this member of the broker set does not lead: ask a name server for the route",
                )
            if is_send and leading.in_sync_count < self._min_in_sync:
                raise response_error(
                    ResponseCode.SYSTEM_ERROR,
                    f"in-sync replicas not enough: {leading.in_sync_count} of the "
                    f"minInSyncReplicas={self._min_in_sync}; nothing is stored",
                )
            before = leading.leader.changes
            reply = handler(command, connection)
            if is_tied or command.flag & FLAG_ONEWAY or not leading.leader.waits:
                return reply
            if is_telling and not leading.leader.is_replicated:
                return self._when_replicated(reply, NEVER)
            if isinstance(reply, Command) and leading.leader.changes == before:
                return reply
            return self._when_replicated(reply, before)

        return guarded_handler

    async def _when_replicated(
        self, reply: Command | Awaitable[Command | None] | None, before: int
    ) -> Command | None:
        """Answers when the in-sync set has all changes that were made since a count of them."""
        answer = reply if reply is None or isinstance(reply, Command) else await reply
        if self._leading.leader.changes == before:
            return answer
        done: asyncio.Future[OperatingError | None] = asyncio.get_running_loop().create_future()

        def replicated(error: OperatingError | None) -> None:
            if not done.done():
                done.set_result(error)

        self._leading.leader.when_replicated(replicated)
        error = await done
        if error is not None:
            raise error
        return answer
