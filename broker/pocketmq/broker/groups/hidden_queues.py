"""Queues beyond a topic's read queues: they keep their messages, but no consumer gets them."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.groups.offsets import ConsumerOffsets
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.topics import TopicConfig


class HiddenQueue(NamedTuple):
    """A queue that holds messages which no consumer can pull.

    Attributes:
        queue_id: which.
        messages: how many it holds.
        unread: how many of them a group has not read, by group; those that have read all are out.
    """

    queue_id: int
    messages: int
    unread: dict[str, int]

    def __str__(self) -> str:
        text = f"queue {self.queue_id} holds {self.messages} messages"
        groups = ", ".join(f"{count} by {group}" for group, count in sorted(self.unread.items()))
        return f"{text}, unread {groups}" if groups else text


def hidden_queues(
    topic: TopicConfig, store: MessageStore, offsets: ConsumerOffsets
) -> list[HiddenQueue]:
    """Finds the queues of a topic that hold messages and are not among its read queues."""
    name = topic.topic_name
    groups = offsets.groups_of(name)
    out = []
    for queue_id in store.queue_ids(name):
        if queue_id < topic.read_queue_nums:
            continue
        queue_log = store.log_if_sound(name, queue_id)
        if queue_log is None or queue_log.min_offset == queue_log.max_offset:
            continue
        low, high = queue_log.min_offset, queue_log.max_offset
        unread = {g: high - max(offsets.get(g, name, queue_id) or 0, low) for g in groups}
        behind = {group: count for group, count in unread.items() if count > 0}
        out.append(HiddenQueue(queue_id, high - low, behind))
    return out


def warning_of(topic: TopicConfig, hidden: list[HiddenQueue]) -> str:
    """Writes the warning for an operator who lowers read queues; empty without hidden ones."""
    if not hidden:
        return ""
    listed = "; ".join(map(str, hidden))
    return (
        f"topic {topic.topic_name} has {topic.read_queue_nums} read queues now, and nobody gets "
        f"what is behind them until they are raised again: {listed}"
    )
