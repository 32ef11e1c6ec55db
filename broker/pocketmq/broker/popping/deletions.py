"""What pops know of topics and groups that are deleted."""

from __future__ import annotations

from pocketmq.broker.groups.request_modes import RequestModes
from pocketmq.broker.popping.pop_queues import PopQueues
from pocketmq.broker.popping.waiting import PopWaiting
from pocketmq.protocol.names import names


class PopDeletions:
    """Forgets deleted topics and groups.

    Args:
        queues: what is in flight.
        waiting: pops that wait.
        modes: how groups consume.
    """

    def __init__(self, queues: PopQueues, waiting: PopWaiting, modes: RequestModes) -> None:
        self._queues, self._waiting, self._modes = queues, waiting, modes

    def retry_topics_of(self, topic: str) -> list[str]:
        """The retry topics of the groups that pop a topic; they are deleted with it."""
        return [names.pop_retry_topic(group, topic) for group in self._queues.groups_of(topic)]

    def topic_deleted(self, topic: str) -> None:
        """Forgets a topic that was deleted."""
        self._queues.remove_topic(topic)
        self._waiting.release_topic(topic)
        self._modes.remove_topic(topic)

    def group_deleted(self, group: str) -> None:
        """Forgets a group that was deleted."""
        self._queues.remove_group(group)
        self._modes.remove_group(group)
