"""Locks of queues that are consumed in order: 41, 42 (`broker/processor/AdminBrokerProcessor`)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from pocketmq.broker.groups.order_locks import OrderLocks
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX
from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, response_error
from pocketmq.protocol.names import names
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import encoded_in_slices, in_slices
from pocketmq.transport.connection import Connection, Handler, Reply

LOCKS_PER_SLICE = 500
"""Locks that one slice gives, saves or releases: a few milliseconds."""

NAME_LENGTH_MAX = 255
"""Of clients and brokers; what is locked is kept, and so must be small."""


class OrderLockHandlers:
    """Gives and releases the locks of queues.

    Args:
        locks: of the broker.
        clock: for the turns of others.
    """

    def __init__(self, locks: OrderLocks, clock: Clock) -> None:
        self._locks, self._clock = locks, clock

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def lock(self, command: Command, connection: Connection) -> Reply:
        """41: answers those of the queues that are the client's now."""
        wanted = _checked(command)
        if len(wanted.mq_set) > LOCKS_PER_SLICE:
            return self._lock_in_slices(wanted, connection)
        held = self._locks.lock(wanted.consumer_group, wanted.queues, wanted.client_id, connection)
        return Command(ResponseCode.SUCCESS, body=LockBatchResult.of(held).encode())

    async def _lock_in_slices(self, wanted: LockBatchBody, connection: Connection) -> Command:
        body = LockBatchResult()
        async for part in self._slices(wanted):
            held = self._locks.lock(part.consumer_group, part.queues, part.client_id, connection)
            body.lock_ok_mq_set += LockBatchResult.of(held).lock_ok_mq_set
        return Command(ResponseCode.SUCCESS, body=await encoded_in_slices(self._clock, body))

    def unlock(self, command: Command, _: Connection) -> Reply:
        """42: releases locks."""
        given = _checked(command)
        if len(given.mq_set) > LOCKS_PER_SLICE:
            return self._unlock_in_slices(given)
        self._locks.unlock(given.consumer_group, given.queues, given.client_id)
        return Command(ResponseCode.SUCCESS)

    async def _unlock_in_slices(self, given: LockBatchBody) -> Command:
        async for part in self._slices(given):
            self._locks.unlock(part.consumer_group, part.queues, part.client_id)
        return Command(ResponseCode.SUCCESS)

    async def _slices(self, body: LockBatchBody) -> AsyncIterator[LockBatchBody]:
        keys = body.mq_set
        async for start in in_slices(self._clock, range(0, len(keys), LOCKS_PER_SLICE), 1):
            yield replace(body, mq_set=keys[start : start + LOCKS_PER_SLICE])


def _checked(command: Command) -> LockBatchBody:
    """Reads the body, and checks that its locks can be kept.

    Raises:
        ContentError: it cannot be read.
        ResponseError: 29, a name or a queue in it cannot exist.
    """
    body = LockBatchBody.of_request(command.body)
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
