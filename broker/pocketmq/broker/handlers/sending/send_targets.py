"""The queue log that a message is sent to; its topic is made if the message is its first."""

from __future__ import annotations

import random
from functools import partial

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.refusals import (
    no_permission,
    queue_illegal,
    topic_unknown_on_send,
    unavailable,
)
from pocketmq.broker.store.disk.disk import DiskGuard
from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalNameError, response_error
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.runtime.live import Live
from pocketmq.runtime.slices import call_in_slice
from pocketmq.transport.connection import Connection
from pocketmq.transport.reading_state import Hold


class SendTargets:
    """Finds the logs that messages are sent to.

    Args:
        topics, groups, store: of the broker.
        disk: says why nothing can be stored at the moment.
        settings: of sends.
        rng: picks a queue when the client leaves that to the broker.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        disk: DiskGuard,
        settings: Live[SendSettings],
        rng: random.Random,
    ) -> None:
        self._topics, self._groups, self._store, self._disk = topics, groups, store, disk
        self._settings, self._rng = settings, rng

    def log_for(self, request: SendMessageRequest, connection: Connection) -> QueueLog:
        """The log of the topic and queue of a request, if it may be written to.

        Raises:
            ResponseError: it may not.
        """
        permission = self._settings.now.permission
        if not permission & flags.PERM_WRITE:
            raise no_permission(
                f"the broker takes no messages: its brokerPermission is {permission}"
            )
        name, queue_id, disk = request.topic, request.queue_id, self._disk
        topic = self._topics.get(name)
        if topic is None or name in names.SEND_FORBIDDEN_TOPICS:
            topic = self._first_topic(request, connection)
        if disk.failed_reason or disk.full_reason:
            raise unavailable(disk.refusal or "")
        if queue_id < 0:
            if not topic.write_queue_nums:
                raise queue_illegal(queue_id, topic, "write", connection.remote_address)
            queue_id = self._rng.randrange(topic.write_queue_nums)
        elif queue_id >= topic.write_queue_nums and queue_id >= topic.queue_nums_max:
            raise queue_illegal(queue_id, topic, "write", connection.remote_address)
        try:
            return self._store.queue_log(name, queue_id)
        except StoreError as e:
            raise unavailable(str(e)) from e

    def _first_topic(self, request: SendMessageRequest, connection: Connection) -> TopicConfig:
        """Makes the topic that a request is the first to name."""
        name = request.topic
        if name in names.SEND_FORBIDDEN_TOPICS:
            raise no_permission(f"Sending message to topic[{name}] is forbidden.")
        try:
            names.check_topic(name)
        except IllegalNameError as e:
            raise response_error(ResponseCode.INVALID_PARAMETER, str(e)) from e
        if name.startswith(names.RETRY_PREFIX):
            group = self._groups.find_for_retry(name.removeprefix(names.RETRY_PREFIX), connection)
            return self._topics.create_for_group(name, group.retry_queue_nums)
        if self._disk.refusal:
            raise unavailable(self._disk.refusal)
        try:
            topic = self._topics.create_on_send(
                name,
                request.default_topic,
                request.default_topic_queue_nums,
                self._settings.now.queue_nums_max,
                connection,
            )
        except WriteFailedError as e:
            self._disk.learn(e)
            raise unavailable(str(e)) from e
        if topic is None:
            raise topic_unknown_on_send(name, self._settings.now.cluster)
        # A topic costs as much as a hundred messages, so a turn has but few new ones.
        connection.hold_reading(Hold.TURN_SHARE)
        call_in_slice(partial(connection.release_reading, Hold.TURN_SHARE))
        return topic
