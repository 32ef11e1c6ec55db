"""Sends: 10, 310, 320 (`broker/processor/SendMessageProcessor`)."""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from functools import partial

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.batches import stored_batch
from pocketmq.broker.appending.size_limits import properties_too_large
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.sending.delayed_sends import DelayedSends
from pocketmq.broker.handlers.sending.half_sends import HalfSends
from pocketmq.broker.handlers.sending.long_batches import COUNT_UNKNOWN_SIZE_MAX, LongBatches
from pocketmq.broker.handlers.sending.retried_sends import RetriedSends
from pocketmq.broker.handlers.sending.send_checks import (
    SendChecks,
    check_batch,
    check_batch_request,
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
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold


class SendHandlers:
    """Checks messages, appends them and answers when they are stored.

    Args:
        checks, targets: what must hold of a message, and the log that it goes to.
        properties, answers: what is added to messages, and what their senders get.
        delayed, half, retried: store the messages that need more, or readdress them.
        long_batches: decodes all but the smallest batches, and stores the long ones.
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
        long_batches: LongBatches,
        appender: Appender,
        store: MessageStore,
        store_host: bytes,
    ) -> None:
        self._checks, self._targets = checks, targets
        self._complete, self._answers = properties.complete, answers
        self._delayed, self._half, self._retried = delayed, half, retried
        self._long_batches = long_batches
        self._append_sent, self._append_records = appender.append_sent, appender.append_records
        self._store_time, self._store_host = store.store_time, store_host

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.SEND_MESSAGE: self.send_long,
            RequestCode.SEND_MESSAGE_V2: self.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send_batch,
        }

    def send(self, command: Command, connection: Connection) -> Reply:
        """310: one message, or a batch if it says so."""
        request = command.read(SendMessageV2Request)
        if request.batch:
            return self._store_batch(command, request, connection)
        self._store_message(command, request, connection)
        return None

    def send_long(self, command: Command, connection: Connection) -> Reply:
        """10: the same with long names."""
        request = command.read(SendMessageRequest)
        if request.batch:
            return self._store_batch(command, request, connection)
        self._store_message(command, request, connection)
        return None

    def send_batch(self, command: Command, connection: Connection) -> Reply:
        """320: a batch."""
        return self._store_batch(command, command.read(SendBatchRequest), connection)

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
        queue_log = self._targets.log_for(request, connection)
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
            self._retried.readdress(command, request, connection)
        queue_log = self._targets.log_for(request, connection)
        if self._checks.is_half(request, request.properties or ""):
            self._half.store(command, request, connection, queue_log.queue_id)
        else:
            self._delayed.store(command, request, connection, queue_log)

    def _store_batch(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> Reply:
        command.body = bytes(command.body)  # which copies nothing but a view
        if len(command.body) > COUNT_UNKNOWN_SIZE_MAX and self._long_batches.share.left <= 0:
            connection.hold_reading(Hold.WORK_SHARE)
            return self._store_batch_in_turn(command, request, connection)
        return self._store_batch_now(command, request, connection)

    async def _store_batch_in_turn(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> Command | None:
        """Stores a batch when fewer messages are stored, so that the loop is not held up."""
        try:
            await self._long_batches.share.turn()
            reply = self._store_batch_now(command, request, connection)
            return await reply if isinstance(reply, Awaitable) else reply
        finally:
            connection.release_reading(Hold.WORK_SHARE)

    def _store_batch_now(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> Reply:
        self._checks.check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX) or len(request.topic) > 127:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch can go neither to a retry topic nor to one named with over 127 characters",
            )
        if len(command.body) <= COUNT_UNKNOWN_SIZE_MAX:
            messages = decode_batch(command.body)
        else:
            portions, rest = self._long_batches.begin(command.body)
            if rest is not None:
                return self._long_batches.store(command, request, connection, portions, rest)
            messages = portions.popleft()
            for portion in portions:
                messages += portion
        check_batch(messages)
        queue_log = self._targets.log_for(request, connection)
        check_batch_request(request)
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
        durability = durability_of(request.properties or "")
        self._append_records(
            queue_log, batch.records, batch.entries, len(messages), on_stored, durability
        )
        return None
