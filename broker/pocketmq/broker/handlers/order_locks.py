"""Locks of queues that are consumed in order: 41, 42 (`broker/processor/AdminBrokerProcessor`)."""

from __future__ import annotations

from pocketmq.broker.order_locks import OrderLocks
from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.transport.connection import Connection, Handler


class OrderLockHandlers:
    """Lends queues to one member of a group at a time.

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
        wanted = LockBatchBody.decode(command.body)
        held = self._locks.lock(wanted.consumer_group, wanted.queues, wanted.client_id)
        return Command(ResponseCode.SUCCESS, body=LockBatchResult.of(held).encode())

    def unlock(self, command: Command, _: Connection) -> Command:
        """42."""
        given = LockBatchBody.decode(command.body)
        self._locks.unlock(given.consumer_group, given.queues, given.client_id)
        return Command(ResponseCode.SUCCESS)
