"""Locks of queues that are consumed in order: 41, 42 (`broker/processor/AdminBrokerProcessor`)."""

from __future__ import annotations

from pocketmq.broker.groups.order_locks import OrderLocks
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX
from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, response_error
from pocketmq.protocol.names import names
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

NAME_LENGTH_MAX = 255
"""Of clients and brokers; what is locked is kept, and so must be small."""


class OrderLockHandlers:
    """Gives and releases the locks of queues.

    Args:
        locks: of the broker.
    """

    def __init__(self, locks: OrderLocks) -> None:
        self._locks = locks

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, command: Command, _: Connection) -> Command:
        """41: answers those of the queues that are the client's now."""
        wanted = _checked(command)
        held = self._locks.lock(wanted.consumer_group, wanted.queues, wanted.client_id)
        return Command(ResponseCode.SUCCESS, body=LockBatchResult.of(held).encode())

    def unlock(self, command: Command, _: Connection) -> Command:
        """42: releases locks."""
        given = _checked(command)
        self._locks.unlock(given.consumer_group, given.queues, given.client_id)
        return Command(ResponseCode.SUCCESS)


def _checked(command: Command) -> LockBatchBody:
    """Reads the body, and checks that its locks can be kept.

    Raises:
        ContentError: it cannot be read.
        ResponseError: 29, a name or a queue in it cannot exist.
    """
    body = LockBatchBody.decode(command.body)
    try:
        names.check_group(body.consumer_group)
        for topic in {key.topic for key in body.mq_set}:
            names.check_topic(topic)
    except IllegalNameError as e:
        raise _invalid(str(e)) from e
    if not 0 < len(body.client_id) <= NAME_LENGTH_MAX:
        raise _invalid(
            f"clientId has {len(body.client_id)} characters: it must have 1 to {NAME_LENGTH_MAX}"
        )
    for key in body.mq_set:
        if not 0 <= key.queue_id < QUEUE_NUMS_MAX or len(key.broker_name) > NAME_LENGTH_MAX:
            raise _invalid(
                f"there is no queue {key.queue_id} of {key.topic} on {key.broker_name[:32]!r}: a "
                f"queueId is between 0 and {QUEUE_NUMS_MAX - 1}"
            )
    return body


def _invalid(remark: str) -> ResponseError:
    return response_error(ResponseCode.INVALID_PARAMETER, remark)
