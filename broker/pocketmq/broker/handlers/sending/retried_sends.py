"""Sends by which a consumer's client hands a message to its group again."""

from __future__ import annotations

from pocketmq.broker.appending.retry_rules import dead_letter_topic, is_exhausted
from pocketmq.broker.appending.stored_message import with_properties
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.order_locks import OrderLocks
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection


class RetriedSends:
    """Sends retries that were tried often enough to the dead letters.

    Args:
        groups, topics, locks: of the broker.
    """

    def __init__(self, groups: GroupTable, topics: TopicTable, locks: OrderLocks) -> None:
        self._groups, self._topics, self._locks = groups, topics, locks

    def readdress(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> None:
        """Readdresses a send to a retry topic if the message has no retries left.

        A group that consumes in order has none: its consumer tried the message on the spot.

        Raises:
            GroupMissingError: the topic's group does not exist.
        """
        group = self._groups.find_for_retry(
            request.topic.removeprefix(names.RETRY_PREFIX), connection
        )
        times, times_max = request.reconsume_times or 0, request.max_reconsume_times
        if is_exhausted(group, command.version, times_max, times) or self._locks.holds_any(
            group.group_name
        ):
            request.topic = dead_letter_topic(self._topics, group.group_name)
            request.queue_id = 0
            request.properties = with_properties(request.properties or "", {props.DELAY: "-1"})
