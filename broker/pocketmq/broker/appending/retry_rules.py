"""The rules of retries: when a message is handed out again, and after how many times it is not."""

from __future__ import annotations

from pocketmq.broker.topics.topics import DLQ_QUEUE_NUMS, TopicTable
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.codes import Version
from pocketmq.protocol.names import names

FIRST_DELAY_LEVEL = 3
"""Delay level of the first retry; each further one waits a level longer."""


def is_exhausted(
    group: GroupConfig, version: int, max_reconsume_times: int | None, reconsume_times: int
) -> bool:
    """Whether a retry would be one more than its group has (`handleRetryAndDLQ`).

    Args:
        group: sets the number of retries, unless the consumer does.
        version: of the consumer's client; only newer ones may set a number.
        max_reconsume_times: the consumer's number.
        reconsume_times: number of the retry, from 1.
    """
    times_max = group.retry_max_times
    if version >= Version.V3_4_9 and max_reconsume_times is not None:
        times_max = max_reconsume_times
    return reconsume_times > times_max


def retry_delay_level(asked: int, reconsume_times: int) -> int:
    """The delay level of a retry: what the consumer asked for, or one that grows by itself.

    Args:
        asked: by the consumer; 0 leaves it to the broker.
        reconsume_times: number of the retry, from 1.
    """
    return asked or FIRST_DELAY_LEVEL + reconsume_times - 1


def dead_letter_topic(topics: TopicTable, group_name: str) -> str:
    """The name of a group's dead letter topic, which is made if it is missing."""
    topic = names.dlq_topic(group_name)
    topics.create_for_group(topic, DLQ_QUEUE_NUMS)
    return topic
