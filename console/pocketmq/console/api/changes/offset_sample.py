"""Looks at some of the messages that a reset would give again or pass over."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.client import MessageQueue, PullConsumer
from pocketmq.console.api.bodies.offsets import QueueReset, Sample, SampledMessage
from pocketmq.protocol.errors import NoPermissionError
from pocketmq.protocol.messages.message import ReceivedMessage

QUEUES_MAX = 16
"""Queues that a sample looks at."""

PULLED_MAX = 32
"""Messages of one pull; RocketMQ's brokers give no more."""


async def sample(
    reader: PullConsumer, topic: str, resets: Sequence[QueueReset], count: int
) -> Sample:
    """Takes a sample; nothing is consumed.

    Args:
        reader: pulls.
        topic: which topic.
        resets: what would be done to each queue.
        count: messages at most.
    """
    moved = sorted((each for each in resets if each.messages), key=lambda each: -abs(each.messages))
    looked_at = moved[: min(QUEUES_MAX, count)]
    taken = Sample(queues=len(looked_at))
    times: list[int] = []
    try:
        for number, reset in enumerate(looked_at):
            queue = MessageQueue(topic, reset.broker, reset.queue)
            share = -(-(count - len(taken.messages)) // (len(looked_at) - number))
            first, size = _range(reset)
            found = await _pulled(reader, queue, first, min(share, size))
            taken.messages += [_shown(reset, message) for message in found]
            last = await _pulled(reader, queue, first + size - 1, 1)
            times += [message.store_timestamp for message in (*found, *last)]
    except NoPermissionError as e:  # whoever may reset need not be allowed to read
        taken.problem = str(e)
    if times:
        taken.oldest_ms, taken.newest_ms = min(times), max(times)
    return taken


def _range(reset: QueueReset) -> tuple[int, int]:
    """The first offset between before and after that the queue holds, and how many they are."""
    size = abs(reset.messages)
    return (reset.after if reset.messages > 0 else reset.after - size), size


async def _pulled(
    reader: PullConsumer, queue: MessageQueue, offset: int, count: int
) -> list[ReceivedMessage]:
    result = await reader.pull(queue, offset, min(count, PULLED_MAX))
    return [each for each in result.messages if offset <= each.queue_offset < offset + count]


def _shown(reset: QueueReset, message: ReceivedMessage) -> SampledMessage:
    return SampledMessage(
        broker=reset.broker,
        queue=reset.queue,
        offset=message.queue_offset,
        msg_id=message.msg_id,
        store_timestamp=message.store_timestamp,
        tags=message.tags,
        keys=list(message.keys),
        comes_again=reset.messages > 0,
    )
