"""The topic of an audit: its lines as messages, in one queue."""

from __future__ import annotations

import logging

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import new_message
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import WRITTEN
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.broker")


class AuditTopic:
    """Appends lines to a topic, which is made if it does not exist.

    Args:
        name: of the topic.
        topics, store, appender: of the broker.
        store_host: the broker's encoded address.
        clock: dates the messages.
    """

    def __init__(
        self,
        name: str,
        topics: TopicTable,
        store: MessageStore,
        appender: Appender,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._name, self._topics, self._store = name, topics, store
        self._appender, self._host, self._clock = appender, store_host, clock

    def write(self, line: bytes) -> None:
        """Appends a line. A disk that does not take it stops no request: it is logged."""
        if self._name not in self._topics:
            self._topics.put(
                TopicConfig(topic_name=self._name, read_queue_nums=1, write_queue_nums=1)
            )
        message = new_message(self._clock.now_ms(), self._host, self._host, line, b"")
        try:
            queue_log = self._store.queue_log(self._name, 0)
            self._appender.append_message(queue_log, message, self._stored, WRITTEN)
        except StoreError as e:
            self._stored(e)

    def _stored(self, error: OperatingError | None) -> None:
        if error is not None:
            log.error("the audit cannot be written to the topic %s: %s", self._name, error)
