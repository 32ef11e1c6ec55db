"""Sends: 10, 310, 320 (`broker/processor/SendMessageProcessor`)."""

from __future__ import annotations

import struct
from functools import partial

from pocketmq.broker.appending.batches import stored_batch
from pocketmq.broker.handlers.sending.send_checks import (
    SendChecks,
    check_properties_size,
    check_sys_flag,
    does_not_fit,
    durability_of,
    is_special,
)
from pocketmq.broker.handlers.sending.send_properties import SendProperties
from pocketmq.broker.handlers.sending.send_replies import SendAnswers
from pocketmq.broker.handlers.sending.sent_record import sent_record
from pocketmq.broker.handlers.sending.special_sends import SpecialSends
from pocketmq.broker.store.log.queue_log import Waiter
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import OperatingError, response_error
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
    """Checks messages, gives them their place and answers when they are stored.

    Args:
        checks: what must hold before a message is stored.
        properties: what is added to a message.
        answers: what senders are told.
        specials: stores messages that need more.
        store: of the broker.
        store_host: the broker's encoded address, which goes into records and message ids.
    """

    def __init__(
        self,
        checks: SendChecks,
        properties: SendProperties,
        answers: SendAnswers,
        specials: SpecialSends,
        store: MessageStore,
        store_host: bytes,
    ) -> None:
        self._checks, self._properties, self._answers = checks, properties, answers
        self._specials, self._store, self._store_host = specials, store, store_host

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
            self._specials.store(command, request, connection)
            return
        checks, store = self._checks, self._store
        checks.check_body(command.body)
        queue_log = checks.log_for(request, connection.remote_address)
        check_sys_flag(request.sys_flag)
        unique, text = self._properties.complete(given)
        properties = text.encode()
        check_properties_size(properties, props.PROPERTIES_SIZE_MAX)
        place = queue_log.next_physical_offset
        told = partial(
            self._stored, command, connection, place, queue_log.queue_id, queue_log.next_offset,
            unique,
        )  # fmt: skip
        record = sent_record(
            command, request, connection, queue_log, place, request.sys_flag, properties,
            store.store_time(queue_log), self._store_host,
        )  # fmt: skip
        code = props.tags_code(props.value_of(given, props.TAGS)) if "TAGS" in given else 0
        queue_log.append(record, code, Waiter(told, durability_of(given)))
        store.schedule_commit(queue_log)

    def _stored(
        self,
        command: Command,
        connection: Connection,
        place: int,
        queue_id: int,
        offset: int,
        unique: str,
        error: OperatingError | None,
    ) -> None:
        self._answers.answer(
            command, connection, error, self._answers.id_at(place), queue_id, offset, unique
        )

    def _store_batch(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> None:
        self._checks.check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX) or len(request.topic) > 127:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch can go neither to a retry topic nor to one named with over 127 characters",
            )
        entries = decode_batch(command.body)
        self._checks.check_entries(entries)
        queue_log = self._checks.log_for(request, connection.remote_address)
        given = request.properties or ""
        if is_special(given):
            self._checks.check_batch_kind(request.sys_flag, given)
        else:
            check_sys_flag(request.sys_flag)
        first_offset = queue_log.next_offset
        try:
            batch = stored_batch(
                entries,
                queue_log,
                topic=request.topic.encode(),
                sys_flag=request.sys_flag,
                born_timestamp=request.born_timestamp,
                born_host=connection.remote_host,
                store_timestamp=self._store.store_time(queue_log),
                store_host=self._store_host,
                reconsume_times=request.reconsume_times or 0,
            )
        except struct.error as e:
            raise does_not_fit(e) from e

        told = partial(
            self._batch_stored, command, connection, batch.places, queue_log.queue_id, first_offset
        )
        waiter = Waiter(told, durability_of(given))
        queue_log.append_many(batch.records, batch.entries, len(entries), waiter)
        self._store.schedule_commit(queue_log)

    def _batch_stored(
        self,
        command: Command,
        connection: Connection,
        places: list[int],
        queue_id: int,
        offset: int,
        error: OperatingError | None,
    ) -> None:
        msg_ids = offset_msg_ids(self._store_host, places)
        self._answers.answer(command, connection, error, msg_ids, queue_id, offset)
