"""Sends that may ask for a later delivery, by a delay level or a time."""

from __future__ import annotations

from functools import partial

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.size_limits import check_properties_size
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.sending.send_checks import durability_of
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.handlers.sending.special_properties import is_special
from pocketmq.broker.refusals import unavailable
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import OnStored, QueueLog
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.recall_handle import RecallHandle
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection


class DelayedSends:
    """Stores messages where they wait until they are due, or at once in their queue.

    Args:
        properties, answers: of sends.
        appender, schedule: of the broker.
        broker_name, store_host: go into recall handles and records.
    """

    def __init__(
        self,
        properties: SendProperties,
        answers: SendAnswers,
        appender: Appender,
        schedule: Schedule,
        broker_name: str,
        store_host: bytes,
    ) -> None:
        self._properties, self._answers = properties, answers
        self._appender, self._schedule = appender, schedule
        self._broker_name, self._store_host = broker_name, store_host

    def store(
        self,
        command: Command,
        request: SendMessageRequest,
        connection: Connection,
        queue_log: QueueLog,
    ) -> None:
        """Stores a message for a queue; its sender is answered when that is done.

        Raises:
            ResponseError: it may not be stored.
        """
        given, queue_id = request.properties or "", queue_log.queue_id
        complete = self._properties.renew if is_special(given) else self._properties.complete
        unique, text = complete(given)
        try:
            redirect = self._schedule.redirect_as_asked(queue_log, text)
        except StoreError as e:
            raise unavailable(str(e)) from e
        store_ms = deliver_ms = 0
        if redirect is not None:
            queue_log, store_ms, deliver_ms, text, *_ = redirect
        properties = text.encode()
        check_properties_size(properties)
        handle = None
        if queue_log.topic == names.TIMER_TOPIC:
            handle = self._recall_handle(request.topic, text, unique)
        physical_offset = queue_log.next_physical_offset
        on_stored: OnStored = partial(
            self._answers.answer, command, connection, self._answers.id_at(physical_offset),
            queue_id, queue_log.next_offset, unique, handle,
        )  # fmt: skip
        if redirect is not None:
            on_stored = self._schedule.waking(redirect, on_stored)
        code = deliver_ms or props.tags_code(props.value_of(text, props.TAGS))
        self._appender.append_sent(
            queue_log, physical_offset, request, command.body, connection.remote_host,
            request.sys_flag, properties, code, self._store_host, on_stored, durability_of(given),
            store_ms, deliver_ms,
        )  # fmt: skip

    def _recall_handle(self, topic: str, properties: str, unique: str) -> str | None:
        """The handle by which a timer message can be called back (`attachRecallHandle`)."""
        slot_ms = props.value_of(properties, props.TIMER_OUT_MS)
        if slot_ms is None or topic.startswith(names.RETRY_PREFIX):
            return None
        # RocketMQ finds the slot by rounding down: hence the millisecond.
        return RecallHandle(topic, self._broker_name, int(slot_ms) + 1, unique).encode()
