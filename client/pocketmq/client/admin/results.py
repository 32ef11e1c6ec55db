"""Results of administration, beyond the protocol's own bodies."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.messages.message import MessageQueue


class QueueStats(msgspec.Struct, frozen=True):
    """The offsets and the last store time of one queue.

    Attributes:
        queue: which.
        min_offset: of the oldest message.
        max_offset: of the message that comes next.
        last_update_ms: when the last message was stored; 0 when there is none.
    """

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_update_ms: int

    @property
    def count(self) -> int:
        """How many messages the queue holds."""
        return self.max_offset - self.min_offset


class QueueState(msgspec.Struct, frozen=True):
    """A queue of a topic, and how much each group still has to read of it.

    Attributes:
        stats: what it holds.
        is_readable, is_writable: whether it is among the topic's read and write queues.
        unread: how many of its messages each group has not read, by group.
        attributes: of the topic, on this broker.
    """

    stats: QueueStats
    is_readable: bool
    is_writable: bool
    unread: dict[str, int]
    attributes: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def is_hidden(self) -> bool:
        """Whether it holds messages that no consumer reaches: the topic was shrunk."""
        return not self.is_readable and self.stats.count > 0


class QueueLag(msgspec.Struct, frozen=True):
    """A group's offset in one queue.

    Attributes:
        queue: which.
        broker_offset: of the message that comes next.
        consumer_offset: where the group continues.
        last_timestamp_ms: when the last message before `consumer_offset` was stored.
        pull_offset: up to where its consumers have pulled.
    """

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_timestamp_ms: int
    pull_offset: int = 0

    @property
    def lag(self) -> int:
        """How many messages the group has not finished."""
        return self.broker_offset - self.consumer_offset

    @property
    def inflight(self) -> int:
        """How many messages are pulled and not finished; PullOffset less ConsumerOffset."""
        return max(self.pull_offset - self.consumer_offset, 0)


class QueueReset(msgspec.Struct, frozen=True):
    """A change of a group's offset in one queue.

    Attributes:
        queue: which.
        before: where it stood.
        after: where it goes on.
    """

    queue: MessageQueue
    before: int
    after: int


class BrokerRow(msgspec.Struct, frozen=True):
    """One broker of a cluster."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
