"""Resolves the topic and queue of a delayed or half message to the log it is delivered to."""

from __future__ import annotations

from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.metadata.metadata_gaps import MetadataGaps
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import QUEUE_NUMS_MAX, TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names


class RealTargets:
    """Finds the logs of waiting messages, though topics may be deleted or smaller meanwhile.

    Args:
        store, topics, groups: of the broker.
        gaps: times of which the metadata may have lost a topic.
    """

    def __init__(
        self, store: MessageStore, gaps: MetadataGaps, topics: TopicTable, groups: GroupTable
    ) -> None:
        self._store, self._gaps, self._topics, self._groups = store, gaps, topics, groups

    def find(self, message: StoredMessage) -> QueueLog | str:
        """Returns the log that a message's `REAL_TOPIC` and `REAL_QID` name, or why there is none.

        A topic that is not known is made again if the metadata may have lost it.

        Raises:
            StoreError: it cannot be made or opened.
        """
        properties = message.text
        name = props.value_of(properties, props.REAL_TOPIC)
        queue_id = props.value_of(properties, props.REAL_QUEUE_ID) or ""
        if name is None or not (queue_id.isascii() and queue_id.isdecimal()):
            return "it names no topic"
        topic = self._topic(name)
        if topic is None and message.store_timestamp in self._gaps:
            topic = self._topics.create_for_group(name, min(int(queue_id) + 1, QUEUE_NUMS_MAX))
        if topic is None:
            return f"its topic {name} was deleted meanwhile"
        return self._store.queue_log(name, _queue_within(topic, int(queue_id)))

    def _topic(self, name: str) -> TopicConfig | None:
        topic = self._topics.get(name)
        if topic is None and name.startswith(names.RETRY_PREFIX):
            group = self._groups.get(name.removeprefix(names.RETRY_PREFIX))
            if group is not None:  # it still wants its messages
                return self._topics.create_for_group(name, max(group.retry_queue_nums, 1))
        return topic


def _queue_within(topic: TopicConfig, queue_id: int) -> int:
    """Returns the queue of a message: its own, or one that is left if the topic shrank."""
    if queue_id < topic.queue_nums_max:
        return queue_id
    return queue_id % (topic.write_queue_nums or topic.read_queue_nums or 1)
