"""Sends: 10, 310, 320 (`broker/processor/SendMessageProcessor`)."""

from __future__ import annotations

import random
import struct

from pocketmq.broker.batches import stored_batch
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.groups import GroupTable
from pocketmq.broker.handlers.send_checks import (
    SendChecks,
    SendSettings,
    check_sys_flag,
    does_not_fit,
    is_special,
    wants_flush,
)
from pocketmq.broker.order_locks import OrderLocks
from pocketmq.broker.refusals import (
    store_failure,
    unavailable,
)
from pocketmq.broker.store.errors import StoreError
from pocketmq.broker.store.queue_log import Waiter
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.stored_message import with_properties
from pocketmq.broker.topics import DLQ_QUEUE_NUMS, TopicTable
from pocketmq.broker.transactions.half import (
    HALF_PROPERTIES_SIZE_MAX,
    half_properties,
)
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol import flags, names
from pocketmq.protocol import properties as props
from pocketmq.protocol.batch import decode_batch
from pocketmq.protocol.codes import RequestCode, ResponseCode, Version
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import OperatingError, response_error
from pocketmq.protocol.ids import offset_msg_id, offset_msg_ids, unique_key
from pocketmq.protocol.recall_handle import RecallHandle
from pocketmq.protocol.records import encode_record
from pocketmq.protocol.requests.sending import (
    SendBatchRequest,
    SendMessageRequest,
    SendMessageResponse,
    SendMessageV2Request,
)
from pocketmq.transport.connection import Connection, Handler

_BROKER_PROPERTIES = (props.MSG_REGION, props.TRACE_ON, props.CLUSTER, props.POP_CK)


class SendHandlers:
    """Checks messages, gives them their place and answers when they are stored.

    Args:
        checks: what must hold before a message is stored.
        topics, groups, store, schedule, transactions, locks: of the broker.
        settings: what is added and answered.
        chance: makes keys of messages that have none unique.
    """

    def __init__(
        self,
        checks: SendChecks,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        schedule: Schedule,
        transactions: Transactions,
        locks: OrderLocks,
        settings: SendSettings,
        chance: random.Random,
    ) -> None:
        self._checks = checks
        self._topics, self._groups, self._store = topics, groups, store
        self._schedule, self._transactions, self._locks = schedule, transactions, locks
        self.settings = settings
        self._added = _added_properties(settings)
        self._key_prefix = settings.store_host[:-4] + chance.randbytes(6)
        self._key_counter = 0

    def use(self, settings: SendSettings) -> None:
        """Goes on with other settings."""
        self.settings, self._added = settings, _added_properties(settings)

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
        self._checks.check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX):
            self._give_up_exhausted(command, request)
        queue_log = self._checks.log_for(request, connection.remote_address)
        topic, queue_id, store_ms, deliver_ms = request.topic, queue_log.queue_id, 0, 0
        given = request.properties or ""
        needs_more = is_special(given)
        sys_flag, is_half = request.sys_flag, False
        if needs_more:
            is_half = self._checks.is_half(request, given)
        else:
            check_sys_flag(sys_flag)
        unique, text = self._complete(given, needs_more)
        if is_half:
            text = half_properties(text, topic, queue_id, unique)
            queue_log, topic = self._transactions.half_queue(), names.HALF_TOPIC
            sys_flag &= ~flags.TRANSACTION_MASK
        elif needs_more:
            try:
                diversion = self._schedule.divert_as_asked(queue_log, text)
            except StoreError as e:
                raise unavailable(str(e)) from e
            if diversion is not None:
                queue_log, store_ms, deliver_ms, text = diversion
                topic = queue_log.topic
        properties = text.encode()
        limit = HALF_PROPERTIES_SIZE_MAX if is_half else props.PROPERTIES_SIZE_MAX
        if len(properties) > limit:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message properties have {len(properties)} bytes, the limit is {limit}",
            )
        tags = props.value_of(text, props.TAGS) if props.TAGS in text else None
        offset, place = queue_log.next_offset, queue_log.next_physical_offset
        try:
            record = encode_record(
                topic=topic.encode(),
                queue_id=queue_log.queue_id,
                flag=request.flag,
                queue_offset=offset,
                physical_offset=place,
                sys_flag=sys_flag,
                born_timestamp=request.born_timestamp,
                born_host=connection.remote_host,
                store_timestamp=store_ms or self._store.store_time(queue_log),
                store_host=self.settings.store_host,
                reconsume_times=request.reconsume_times or 0,
                prepared_transaction_offset=deliver_ms,
                body=command.body,
                properties=properties,
            )
        except struct.error as e:
            raise does_not_fit(e) from e

        def stored(error: OperatingError | None) -> None:
            if deliver_ms:
                self._schedule.wake(queue_log)
            self._answer(
                command,
                connection,
                error,
                SendMessageResponse(
                    msg_id=offset_msg_id(self.settings.store_host, place),
                    queue_id=queue_id,
                    queue_offset=offset,
                    transaction_id=unique,
                    recall_handle=self._recall_handle(request.topic, text, unique)
                    if topic == names.TIMER_TOPIC
                    else None,
                    region=self.settings.region,
                    trace_on=self.settings.trace_on,
                ),
            )

        code = 0 if is_half else deliver_ms or props.tags_code(tags)
        queue_log.append(record, code, Waiter(stored, wants_flush(given)))
        self._store.touch(queue_log)

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

    def _complete(self, given: str, is_special: bool) -> tuple[str, str]:
        """The message's unique key, and its properties with what the broker adds."""
        unique = props.value_of(given, props.UNIQ_KEY)
        if is_special:
            # A message that comes back (a retry, a copy): what the broker sets is set anew.
            known = props.decode(given)
            for name in _BROKER_PROPERTIES:
                known.pop(name, None)
            given = "".join([f"{name}\x01{value}\x02" for name, value in known.items()])
        if given and given[-1] != props.VALUE_END:
            given += props.VALUE_END
        if unique is None:
            unique = self._new_key()
            given += f"{props.UNIQ_KEY}\x01{unique}\x02"
        return unique, given + self._added

    def _recall_handle(self, topic: str, properties: str, unique: str) -> str | None:
        """By which a timer message can be called back (`attachRecallHandle`)."""
        slot_ms = props.value_of(properties, props.TIMER_OUT_MS)
        if slot_ms is None or topic.startswith(names.RETRY_PREFIX):
            return None
        # RocketMQ finds the slot by rounding down: hence the millisecond.
        return RecallHandle(topic, self.settings.broker_name, int(slot_ms) + 1, unique).encode()

    def _new_key(self) -> str:
        self._key_counter += 1
        return unique_key(self._key_prefix, self._store.clock.now_ms(), self._key_counter)

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
        self._checks.check_entries(command.body, entries)
        queue_log = self._checks.log_for(request, connection.remote_address)
        given = request.properties or ""
        if is_special(given):
            self._checks.check_batch_kind(request.sys_flag, given)
        else:
            check_sys_flag(request.sys_flag)
        first_offset, store_host = queue_log.next_offset, self.settings.store_host
        try:
            batch = stored_batch(
                entries,
                queue_log,
                topic=request.topic.encode(),
                sys_flag=request.sys_flag,
                born_timestamp=request.born_timestamp,
                born_host=connection.remote_host,
                store_timestamp=self._store.store_time(queue_log),
                store_host=store_host,
                reconsume_times=request.reconsume_times or 0,
            )
        except struct.error as e:
            raise does_not_fit(e) from e

        def stored(error: OperatingError | None) -> None:
            self._answer(
                command,
                connection,
                error,
                SendMessageResponse(
                    msg_id=",".join(offset_msg_ids(store_host, batch.places)),
                    queue_id=queue_log.queue_id,
                    queue_offset=first_offset,
                    region=self.settings.region,
                    trace_on=self.settings.trace_on,
                ),
            )

        waiter = Waiter(stored, wants_flush(given))
        queue_log.append_many(batch.records, batch.entries, len(entries), waiter)
        self._store.touch(queue_log)

    @staticmethod
    def _answer(
        command: Command,
        connection: Connection,
        error: OperatingError | None,
        header: SendMessageResponse,
    ) -> None:
        if error is None:
            connection.respond(command, Command(ResponseCode.SUCCESS, header=header))
            return
        code, remark = store_failure(error)
        if code == ResponseCode.FLUSH_DISK_TIMEOUT:
            # The message is stored: clients take this answer's header as a result.
            connection.respond(command, Command(code, remark=remark, header=header))
        else:
            connection.refuse(command, code, remark)


def _added_properties(settings: SendSettings) -> str:
    """What the broker adds to the properties of every message."""
    return props.encode(
        {
            props.MSG_REGION: settings.region,
            props.TRACE_ON: "true" if settings.trace_on else "false",
            props.CLUSTER: settings.cluster,
        }
    )
