"""Topics whose messages are there although the metadata with their settings was lost."""

from __future__ import annotations

import logging

import msgspec

from pocketmq.broker.store.orphan_logs import OrphanLogs
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable

log = logging.getLogger("pocketmq.broker")


def restore_topics(
    topics: TopicTable, store: MessageStore, orphan_logs: OrphanLogs, queue_nums_min: int
) -> None:
    """Creates or widens the topics of orphan logs, so that each of their queues can be read.

    Args:
        topics, store: of the broker.
        orphan_logs: the topics; they are forgotten when all of them are there.
        queue_nums_min: queues of a topic that is created again (defaultTopicQueueNums).
    """
    for name in sorted(orphan_logs.topics):
        nums = max(store.queue_ids(name), default=-1) + 1
        topic = topics.get(name)
        if topic is None:
            nums = max(queue_nums_min, nums)
            log.warning("topic %s is made again with %d queues", name, nums)
            topics.create_for_group(name, nums)
        elif nums > topic.read_queue_nums:
            log.warning("topic %s has %d queues again", name, nums)
            write_nums = max(nums, topic.write_queue_nums)
            topics.put(
                msgspec.structs.replace(topic, read_queue_nums=nums, write_queue_nums=write_nums)
            )
    orphan_logs.forget()
