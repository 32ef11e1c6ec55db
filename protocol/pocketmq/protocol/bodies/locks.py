"""Locks of queues that are consumed in order: the bodies of 41 and 42."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.messages.message import MessageQueue


class LockBatchBody(Body, kw_only=True):
    """The queues that a client locks or unlocks (`LockBatchRequestBody`)."""

    client_id: str
    consumer_group: str
    mq_set: list[QueueKey] = field(default_factory=list)
    only_this_broker: bool = False

    @classmethod
    def of(cls, group: str, client_id: str, queues: Iterable[MessageQueue]) -> LockBatchBody:
        """Makes the body for some queues of one broker."""
        return cls(client_id=client_id, consumer_group=group, mq_set=_keys(queues))

    @property
    def queues(self) -> list[MessageQueue]:
        """Returns the queues."""
        return _queues(self.mq_set)


class LockBatchResult(Body, kw_only=True):
    """The queues that the client holds now (`LockBatchResponseBody`)."""

    lock_ok_mq_set: list[QueueKey] = field(default_factory=list, name="lockOKMQSet")

    @classmethod
    def of(cls, queues: Iterable[MessageQueue]) -> LockBatchResult:
        """Makes the answer for some queues."""
        return cls(lock_ok_mq_set=_keys(queues))

    @property
    def queues(self) -> list[MessageQueue]:
        """Returns the queues."""
        return _queues(self.lock_ok_mq_set)


def _keys(queues: Iterable[MessageQueue]) -> list[QueueKey]:
    return [QueueKey(q.broker_name, q.queue_id, q.topic) for q in queues]


def _queues(keys: Iterable[QueueKey]) -> list[MessageQueue]:
    return [MessageQueue(key.topic, key.broker_name, key.queue_id) for key in keys]
