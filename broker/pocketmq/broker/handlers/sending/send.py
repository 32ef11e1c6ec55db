"""Sends: 10, 310, 320 (`broker/processor/SendMessageProcessor`)."""

from __future__ import annotations

import struct
from functools import partial

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.batches import stored_batch
from pocketmq.broker.appending.size_limits import properties_too_large
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.sending.delayed_sends import DelayedSends
from pocketmq.broker.handlers.sending.half_sends import HalfSends
from pocketmq.broker.handlers.sending.retried_sends import RetriedSends
from pocketmq.broker.handlers.sending.send_checks import (
    SendChecks,
    check_batch,
    check_batch_kind,
    check_sys_flag,
    durability_of,
)
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.handlers.sending.send_targets import SendTargets
from pocketmq.broker.handlers.sending.special_properties import is_special
from pocketmq.broker.refusals import does_not_fit
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import decode_batch
from pocketmq.protocol.messages.ids import offset_msg_ids
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import (
    SendBatchRequest,
    SendMessageRequest,
    SendMessageV2Request,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler


class SendHandlers:
    """Checks messages, appends them and answers when they are stored.

    Args:
        checks, targets: what must hold of a message, and the log that it goes to.
        properties, answers: what is added to messages, and what their senders get.
        delayed, half, retried: store the messages that need more, or readdress them.
        appender, store: of the broker.
        store_host: the broker's encoded address.
    """

    def __init__(
        self,
        checks: SendChecks,
        targets: SendTargets,
        properties: SendProperties,
        answers: SendAnswers,
        delayed: DelayedSends,
        half: HalfSends,
        retried: RetriedSends,
        appender: Appender,
        store: MessageStore,
        store_host: bytes,
    ) -> None:
        self._checks, self._targets = checks, targets
        self._complete, self._answers = properties.complete, answers
        self._delayed, self._half, self._retried = delayed, half, retried
        self._append_sent, self._append_records = appender.append_sent, appender.append_records
        self._store_time, self._store_host = store.store_time, store_host

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.SEND_MESSAGE: self.send_long,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send_batch,
        }

    def send(self, command: Command, connection: Connection) -> None:
        """310: one message, or a batch if it says so."""
        request = command.read(SendMessageV2Request)
        if request.batch:
            self._store_batch(command, request, connection)
        else:
            self._store_message(command, request, connection)

    def send_long(self, command: Command, connection: Connection) -> None:
        """10: the same with long names."""
        request = command.read(SendMessageRequest)
        if request.batch:
            self._store_batch(command, request, connection)
        else:
            self._store_message(command, request, connection)

    def send_batch(self, command: Command, connection: Connection) -> None:
        """320: a batch."""
        self._store_batch(command, command.read(SendBatchRequest), connection)

    # -- storing ------------------------------------------------------------------------------

    def _store_message(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> None:
        given = request.properties or ""
        if is_special(given) or request.topic.startswith(names.RETRY_PREFIX):
            self._store_special(command, request, connection)
            return
        body, answers = command.body, self._answers
        self._checks.check_body(body)
        queue_log = self._targets.log_for(request, connection.remote_address)
        check_sys_flag(request.sys_flag)
        unique, text = self._complete(given)
        properties = text.encode()
        if len(properties) > props.PROPERTIES_SIZE_MAX:
            raise properties_too_large("the message properties", len(properties))
        physical_offset = queue_log.next_physical_offset
        on_stored = partial(
            answers.answer, command, connection, answers.id_at(physical_offset),
            queue_log.queue_id, queue_log.next_offset, unique, None,
        )  # fmt: skip
        code = props.tags_code(props.value_of(given, props.TAGS)) if "TAGS" in given else 0
        self._append_sent(
            queue_log, physical_offset, request, body, connection.remote_host, request.sys_flag,
            properties, code, self._store_host, on_stored, durability_of(given),
        )  # fmt: skip

    def _store_special(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> None:
        """Stores a message that may be a retry, half or delayed."""
        self._checks.check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX):
            self._retried.readdress(command, request)
        queue_log = self._targets.log_for(request, connection.remote_address)
        if self._checks.is_half(request, request.properties or ""):
            self._half.store(command, request, connection, queue_log.queue_id)
        else:
            self._delayed.store(command, request, connection, queue_log)

    def _store_batch(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> None:
        self._checks.check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX) or len(request.topic) > 127:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch can go neither to a retry topic nor to one named with over 127 characters",
            )
        messages = decode_batch(command.body)
        check_batch(messages)
        queue_log = self._targets.log_for(request, connection.remote_address)
        given = request.properties or ""
        if is_special(given):
            check_batch_kind(request.sys_flag, given)
        else:
            check_sys_flag(request.sys_flag)
        try:
            batch = stored_batch(
                messages,
                queue_log,
                topic=request.topic.encode(),
                sys_flag=request.sys_flag,
                born_timestamp=request.born_timestamp,
                born_host=connection.remote_host,
                store_timestamp=self._store_time(queue_log),
                store_host=self._store_host,
                reconsume_times=request.reconsume_times or 0,
            )
        except struct.error as e:
            raise does_not_fit(e) from e
        on_stored = partial(
            self._answers.answer, command, connection,
            offset_msg_ids(self._store_host, batch.physical_offsets), queue_log.queue_id,
            queue_log.next_offset, None, None,
        )  # fmt: skip
        self._append_records(
            queue_log, batch.records, batch.entries, len(messages), on_stored, durability_of(given)
        )
