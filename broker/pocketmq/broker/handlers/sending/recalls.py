"""Recalls of timer messages: 370 (`broker/processor/RecallMessageProcessor`)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.stored_message import new_message
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.handlers.sending.answers import answer_when_stored
from pocketmq.broker.refusals import no_permission, store_failure, topic_missing
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, UsageError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.recall_handle import RecallHandle, parse_recall_handle
from pocketmq.protocol.requests.sending import RecallMessageRequest, RecallMessageResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

RECALL_TAG = "_RECALL_TAG_"
RECALL_BODY = b"0"


class RecallSettings(msgspec.Struct, frozen=True):
    """What recalls need to know of their broker.

    Attributes:
        broker_name: that handles must name.
        region: goes into answers.
        is_enabled: recallMessageEnable.
        is_writable: whether brokerPermission allows recalls.
        delay_max_ms: how far away a timer can be.
    """

    broker_name: str
    region: str
    is_enabled: bool
    is_writable: bool
    delay_max_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> RecallSettings:
        """The part of a broker's settings that recalls depend on."""
        return cls(
            broker_name=config.broker_name,
            region=config.region_id,
            is_enabled=config.recall_message_enable,
            is_writable=bool(config.broker_permission & flags.PERM_WRITE)
            or config.allow_recall_when_broker_not_writeable,
            delay_max_ms=config.timer_max_delay_sec * 1000,
        )


class RecallHandlers:
    """Stores, behind the timer messages, which of them are not to be delivered.

    As in RocketMQ the answer says that a recall is stored in time, not that its message exists.

    Args:
        topics, store, appender, schedule: of the broker.
        store_host: the broker's encoded address.
        settings: what is checked.
    """

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        clock: Clock,
        appender: Appender,
        schedule: Schedule,
        store_host: bytes,
        settings: Live[RecallSettings],
    ) -> None:
        self._topics, self._store, self._clock = topics, store, clock
        self._appender, self._schedule = appender, schedule
        self._store_host, self._settings = store_host, settings

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.RECALL_MESSAGE: self.recall}

    def recall(self, command: Command, connection: Connection) -> None:
        """370: answered when the recall is stored, as durably as the broker's sends are."""
        request = command.read(RecallMessageRequest)
        handle = self._checked(request)
        try:
            self._append(command, connection, request, handle)
        except StoreError as e:
            raise _failed(str(e)) from e

    def _checked(self, request: RecallMessageRequest) -> RecallHandle:
        """The handle of a request, if everything holds that must."""
        settings = self._settings.now
        if not settings.is_enabled:
            raise no_permission(
                "recall failed, operation is forbidden: recallMessageEnable is false"
            )
        if not settings.is_writable:
            raise response_error(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "recall failed, broker service not available: its brokerPermission forbids writes",
            )
        if request.topic not in self._topics:
            raise topic_missing(request.topic)
        try:
            handle = parse_recall_handle(request.recall_handle)
        except UsageError as e:
            raise _illegal(str(e)) from e
        if handle.topic != request.topic:
            raise _illegal(
                f"recall failed, topic not match: the message was sent to {handle.topic}"
            )
        if handle.broker_name != settings.broker_name:
            raise _illegal(
                f"recall failed, broker service not available: {handle.broker_name} has the "
                f"message, this is {settings.broker_name}"
            )
        left_ms = handle.timestamp_ms - self._clock.now_ms()
        if not 0 < left_ms < settings.delay_max_ms:
            raise _illegal(
                "recall failed, timestamp invalid: the message is delivered already or about to be"
            )
        if self._store.refusal is not None:
            raise _failed(self._store.refusal)
        return handle

    def _append(
        self,
        command: Command,
        connection: Connection,
        request: RecallMessageRequest,
        handle: RecallHandle,
    ) -> None:
        now = self._clock.now_ms()
        given = {
            props.TIMER_DELETE_KEY: handle.unique_key,
            props.UNIQ_KEY: handle.unique_key,
            props.TIMER_DELIVER_MS: str(handle.timestamp_ms),
            props.BORN_TIMESTAMP: str(now),
            props.PRODUCER_GROUP: request.producer_group or "",
            props.TAGS: RECALL_TAG,
        }
        try:
            properties = props.encode(given)
        except UsageError as e:
            raise _illegal(f"recall handle is invalid: {e}") from e
        redirect = self._schedule.timers.redirect(handle.topic, 0, properties)
        if redirect is None:
            raise _illegal("recall failed, timestamp invalid")
        message = new_message(
            now, connection.remote_host, self._store_host, RECALL_BODY, redirect.properties.encode()
        )
        header = RecallMessageResponse(msg_id=handle.unique_key, region=self._settings.now.region)
        answer = answer_when_stored(command, connection, header, _append_failure)
        self._appender.append_message(
            redirect.queue_log,
            message,
            self._schedule.waking(
                redirect, lambda error: answer(None if is_stored(error) else error)
            ),
            store_ms=redirect.store_ms,
            prepared_transaction_offset=redirect.deliver_ms,
        )


def _append_failure(error: OperatingError) -> tuple[int, str]:
    return ResponseCode.SYSTEM_ERROR, f"recall failed, {store_failure(error)[1]}"


def _illegal(remark: str) -> ResponseError:
    return response_error(ResponseCode.ILLEGAL_OPERATION, remark)


def _failed(reason: str) -> ResponseError:
    return response_error(ResponseCode.SYSTEM_ERROR, f"recall failed, execute error: {reason}")
