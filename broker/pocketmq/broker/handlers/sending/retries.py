"""Messages that consumers send back: 36 (`broker/processor/AbstractSendMessageProcessor`)."""

from __future__ import annotations

import random
import re

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.retry_rules import (
    dead_letter_topic,
    is_exhausted,
    retry_delay_level,
)
from pocketmq.broker.appending.size_limits import properties_too_large
from pocketmq.broker.appending.stored_message import StoredMessage, encode_text, read_stored
from pocketmq.broker.counters.traffic import TrafficTable
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.handlers.sending.answers import answer_when_stored
from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.refusals import no_permission
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler

LAST_ERROR_LENGTH_MAX = 1000
"""Characters of a consumer's error that a message keeps."""

_PROPERTY_ENDS = re.compile(f"[{props.NAME_END}{props.VALUE_END}]")

UNIT_SUBSCRIPTION = 2
"""Topic flag of a retry topic whose consumers work in units."""


class RetryHandlers:
    """Stores messages for another attempt, or among the dead letters.

    Args:
        topics, groups, store, appender, schedule: of the broker.
        store_host: the broker's encoded address.
        settings: of sends.
        rng: picks the retry topic's queue.
        sent_back: counts, by group and the topic that the messages were first sent to.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        appender: Appender,
        schedule: Schedule,
        store_host: bytes,
        settings: Live[SendSettings],
        rng: random.Random,
        sent_back: TrafficTable[tuple[str, str]],
    ) -> None:
        self._topics, self._groups = topics, groups
        self._store, self._appender, self._schedule = store, appender, schedule
        self._store_host, self._settings, self._rng = store_host, settings, rng
        self._sent_back = sent_back

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    def send_back(self, command: Command, connection: Connection) -> Command | None:
        """36: answered when the message is stored anew, as durably as the broker's sends are."""
        request = command.read(ConsumerSendMsgBackRequest)
        group = self._groups.find_for_retry(request.group, connection)
        permission = self._settings.now.permission
        if not permission & flags.PERM_WRITE:
            raise no_permission(
                f"the broker takes no messages: its brokerPermission is {permission}"
            )
        if group.retry_queue_nums <= 0:
            return Command(ResponseCode.SUCCESS)  # the group wants no retries: nothing is done
        retry_topic = names.retry_topic(group.group_name)
        topic = self._topics.create_for_group(
            retry_topic, group.retry_queue_nums, UNIT_SUBSCRIPTION if request.unit_mode else 0
        )
        if not flags.is_writable(topic.perm):
            raise no_permission(f"the topic[{retry_topic}] sending message is forbidden")
        data = self._store.read_physical(request.offset) if request.offset >= 0 else b""
        if not data:
            raise _impossible(f"look message by offset failed, {request.offset}")
        message = read_stored(data)
        if request.delay_level < 0 or is_exhausted(
            group, command.version, request.max_reconsume_times, message.reconsume_times + 1
        ):
            dlq_topic = dead_letter_topic(self._topics, group.group_name)
            self._append(
                command, connection, self._again(message, 0, request.last_error), dlq_topic, 0, 0
            )
        else:
            level = retry_delay_level(request.delay_level, message.reconsume_times + 1)
            queue_nums = min(group.retry_queue_nums, topic.write_queue_nums)
            queue_id = self._rng.randrange(max(queue_nums, 1))
            again = self._again(message, level, request.last_error)
            self._append(command, connection, again, retry_topic, queue_id, level)
        self._count(group.group_name, message)
        return None

    def _count(self, group: str, message: StoredMessage) -> None:
        topic = props.value_of(message.text, props.RETRY_TOPIC) or message.topic
        sent_back = self._sent_back[group, topic]
        sent_back.requests += 1
        sent_back.messages += 1

    def _again(self, message: StoredMessage, level: int, last_error: str | None) -> StoredMessage:
        """The message as it is handed out once more."""
        text = message.text
        changes: dict[str, str | None] = {
            props.RETRY_TOPIC: props.value_of(text, props.RETRY_TOPIC) or message.topic,
            props.WAIT: "false",
            props.DELAY: str(level),
            props.ORIGIN_MESSAGE_ID: props.value_of(text, props.ORIGIN_MESSAGE_ID)
            or offset_msg_id(message.store_host, message.physical_offset),
        }
        if last_error:
            changes[props.LAST_ERROR] = _PROPERTY_ENDS.sub(" ", last_error[:LAST_ERROR_LENGTH_MAX])
        again = message.with_changes(changes)._replace(
            store_host=self._store_host, reconsume_times=message.reconsume_times + 1
        )
        _check_properties(again.properties)
        return again

    def _append(
        self,
        command: Command,
        connection: Connection,
        message: StoredMessage,
        topic: str,
        queue_id: int,
        level: int,
    ) -> None:
        if self._store.refusal is not None:
            raise _impossible(self._store.refusal)
        # WAIT=false is for the copies: the consumer that gets this answer forgets the message.
        on_stored = answer_when_stored(command, connection, failure=_append_failure)
        store_ms = deliver_ms = 0
        try:
            queue_log = self._store.queue_log(topic, queue_id)
            if level > 0:
                redirect = self._schedule.redirect_to_level(level, queue_log, message.text)
                queue_log, store_ms, deliver_ms, text, *_ = redirect
                message = message._replace(properties=encode_text(text))
                _check_properties(message.properties)
                on_stored = self._schedule.waking(redirect, on_stored)
            self._appender.append_message(
                queue_log,
                message,
                on_stored,
                store_ms=store_ms,
                prepared_transaction_offset=deliver_ms,
            )
        except StoreError as e:
            raise _impossible(str(e)) from e


def _append_failure(error: OperatingError) -> tuple[int, str]:
    return ResponseCode.SYSTEM_ERROR, str(error)


def _check_properties(properties: bytes) -> None:
    if len(properties) > props.PROPERTIES_SIZE_MAX:
        raise properties_too_large(
            "with what a retry adds the message's properties",
            len(properties),
            code=ResponseCode.SYSTEM_ERROR,
        )


def _impossible(remark: str) -> ResponseError:
    return response_error(ResponseCode.SYSTEM_ERROR, remark)
