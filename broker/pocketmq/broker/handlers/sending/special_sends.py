"""Sends that need more than to be stored: retries, delayed messages, timers and half messages."""

from __future__ import annotations

from functools import partial

from pocketmq.broker.appending.stored_message import with_properties
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.order_locks import OrderLocks
from pocketmq.broker.handlers.sending.send_checks import (
    SendChecks,
    check_properties_size,
    durability_of,
    is_special,
)
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.handlers.sending.send_replies import SendAnswers
from pocketmq.broker.handlers.sending.sent_record import sent_record
from pocketmq.broker.refusals import unavailable
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import QueueLog, Waiter
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import DLQ_QUEUE_NUMS, TopicTable
from pocketmq.broker.transactions.half import HALF_PROPERTIES_SIZE_MAX, half_properties
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol import flags
from pocketmq.protocol.codes import Version
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.recall_handle import RecallHandle
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection


class SpecialSends:
    """Stores messages that go elsewhere first, or may have come back once too often.

    Args:
        checks, properties, answers: of sends.
        topics, groups, store, schedule, transactions, locks: of the broker.
        broker_name: goes into recall handles.
        store_host: the broker's encoded address.
    """

    def __init__(
        self,
        checks: SendChecks,
        properties: SendProperties,
        answers: SendAnswers,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        schedule: Schedule,
        transactions: Transactions,
        locks: OrderLocks,
        broker_name: str,
        store_host: bytes,
    ) -> None:
        self._checks, self._properties, self._answers = checks, properties, answers
        self._topics, self._groups, self._store = topics, groups, store
        self._schedule, self._transactions, self._locks = schedule, transactions, locks
        self._broker_name, self._store_host = broker_name, store_host

    def store(self, command: Command, request: SendMessageRequest, connection: Connection) -> None:
        """Stores one message; its sender is answered when that is done.

        Raises:
            ResponseError: it may not be stored.
        """
        self._checks.check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX):
            self._give_up_exhausted(command, request)
        queue_log = self._checks.log_for(request, connection.remote_address)
        queue_id, store_ms, deliver_ms = queue_log.queue_id, 0, 0
        given = request.properties or ""
        is_half = self._checks.is_half(request, given)
        complete = self._properties.renew if is_special(given) else self._properties.complete
        unique, text = complete(given)
        sys_flag = request.sys_flag
        if is_half:
            text = half_properties(text, request.topic, queue_id, unique)
            queue_log = self._transactions.half_queue()
            sys_flag &= ~flags.TRANSACTION_MASK
        else:
            try:
                diversion = self._schedule.divert_as_asked(queue_log, text)
            except StoreError as e:
                raise unavailable(str(e)) from e
            if diversion is not None:
                queue_log, store_ms, deliver_ms, text = diversion
        properties = text.encode()
        check_properties_size(
            properties, HALF_PROPERTIES_SIZE_MAX if is_half else props.PROPERTIES_SIZE_MAX
        )
        offset, place = queue_log.next_offset, queue_log.next_physical_offset
        record = sent_record(
            command, request, connection, queue_log, place, sys_flag, properties,
            store_ms or self._store.store_time(queue_log), self._store_host, deliver_ms,
        )  # fmt: skip
        handle = None
        if queue_log.topic == names.TIMER_TOPIC:
            handle = self._recall_handle(request.topic, text, unique)
        told = partial(
            self._stored, queue_log if deliver_ms else None, command, connection,
            (self._answers.id_at(place), queue_id, offset, unique, handle),
        )  # fmt: skip
        tags = props.value_of(text, props.TAGS)
        code = 0 if is_half else deliver_ms or props.tags_code(tags)
        queue_log.append(record, code, Waiter(told, durability_of(given)))
        self._store.schedule_commit(queue_log)

    def _stored(
        self,
        delayed_in: QueueLog | None,
        command: Command,
        connection: Connection,
        answer: tuple[str, int, int, str, str | None],
        error: OperatingError | None,
    ) -> None:
        if delayed_in is not None:
            self._schedule.wake(delayed_in)
        self._answers.answer(command, connection, error, *answer)

    def _give_up_exhausted(self, command: Command, request: SendMessageRequest) -> None:
        """Has a retry that was tried often enough go to the dead letters (`handleRetryAndDLQ`).

        So does any retry of a group that consumes in order: its consumer tried it on the spot.

        Raises:
            GroupMissingError: the topic's group does not exist.
        """
        group = self._groups.find(request.topic.removeprefix(names.RETRY_PREFIX))
        times_max = group.retry_max_times
        if command.version >= Version.V3_4_9 and request.max_reconsume_times is not None:
            times_max = request.max_reconsume_times
        tried_often = (request.reconsume_times or 0) > times_max
        if tried_often or self._locks.holds_any(group.group_name):
            request.topic = names.dlq_topic(group.group_name)
            request.queue_id = 0
            request.properties = with_properties(request.properties or "", {props.DELAY: "-1"})
            self._topics.create_for_group(request.topic, DLQ_QUEUE_NUMS)

    def _recall_handle(self, topic: str, properties: str, unique: str) -> str | None:
        """By which a timer message can be called back (`attachRecallHandle`)."""
        slot_ms = props.value_of(properties, props.TIMER_OUT_MS)
        if slot_ms is None or topic.startswith(names.RETRY_PREFIX):
            return None
        # RocketMQ finds the slot by rounding down: hence the millisecond.
        return RecallHandle(topic, self._broker_name, int(slot_ms) + 1, unique).encode()
