"""Sends: 10, 310, 320 (`broker/processor/SendMessageProcessor`)."""

from __future__ import annotations

import random
import struct

import msgspec

from pocketmq.broker.batches import stored_batch
from pocketmq.broker.delay.levels import delay_level_of
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.groups import GroupTable
from pocketmq.broker.order_locks import OrderLocks
from pocketmq.broker.refusals import (
    no_permission,
    queue_illegal,
    store_failure,
    topic_unknown_on_send,
    unavailable,
)
from pocketmq.broker.store.errors import StoreError
from pocketmq.broker.store.queue_log import QueueLog, Waiter
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.stored_message import with_properties
from pocketmq.broker.topics import DLQ_QUEUE_NUMS, TopicTable
from pocketmq.broker.transactions.half import (
    HALF_PROPERTIES_SIZE_MAX,
    asks_for_transaction,
    half_properties,
)
from pocketmq.broker.transactions.transactions import Transactions
from pocketmq.protocol import flags, names
from pocketmq.protocol import properties as props
from pocketmq.protocol.batch import BatchEntry, decode_batch
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import RequestCode, ResponseCode, Version
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import IllegalNameError, OperatingError, ResponseError, response_error
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
_ASKS_FOR_NOTHING = (None, "0", "false")
"""Some SDKs set these on every message."""

_LATER_MARKS = [
    f"{name}\x01".encode()
    for name in (props.DELAY, props.TRANSACTION_PREPARED, *props.TIMER_PROPERTIES)
]


def _is_special(properties: str) -> bool:
    """Whether a message may have a property that needs more than to be stored.

    Plain searches, spelt out, because every message passes here; a name that only looks like one
    of these costs a closer look and nothing else.
    """
    return (
        "DELAY" in properties
        or "TIMER_" in properties
        or "TRAN_MSG" in properties
        or "MSG_REGION" in properties
        or "TRACE_ON" in properties
        or "CLUSTER" in properties
        or "POP_CK" in properties
    )


class SendSettings(msgspec.Struct, frozen=True):
    """What sends need to know of their broker.

    Attributes:
        cluster, region: go into the messages' properties.
        broker_name: goes into recall handles.
        store_host: the broker's encoded address; goes into records and message ids.
        body_size_max: bytes of one body.
        permission: of the whole broker, bits of `pocketmq.protocol.flags`.
        queue_nums_max: most queues of a topic made on its first message.
        trace_on: whether clients' traces are wanted.
        rejects_transactions: rejectTransactionMessage.
    """

    cluster: str
    broker_name: str
    region: str
    store_host: bytes
    body_size_max: int
    permission: int
    queue_nums_max: int
    trace_on: bool
    rejects_transactions: bool


class SendHandlers:
    """Checks messages, gives them their place and answers when they are stored.

    Args:
        topics, groups, store, schedule, transactions, locks: of the broker.
        settings: what is checked and added.
        chance: picks a queue when the client leaves that to the broker.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        schedule: Schedule,
        transactions: Transactions,
        locks: OrderLocks,
        settings: SendSettings,
        chance: random.Random,
    ) -> None:
        self._topics, self._groups, self._store = topics, groups, store
        self._schedule, self._transactions, self._locks = schedule, transactions, locks
        self.settings, self._chance = settings, chance
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

    # -- checks -------------------------------------------------------------------------------

    def _topic_of(self, request: SendMessageRequest) -> TopicConfig:
        name = request.topic
        topic = self._topics.get(name)
        if name in names.SEND_FORBIDDEN_TOPICS:
            raise no_permission(f"Sending message to topic[{name}] is forbidden.")
        if topic is not None:
            return topic
        try:
            names.check_topic(name)
        except IllegalNameError as e:
            raise response_error(ResponseCode.INVALID_PARAMETER, str(e)) from e
        if name.startswith(names.RETRY_PREFIX):
            group = self._groups.find(name.removeprefix(names.RETRY_PREFIX))
            return self._topics.create_for_group(name, group.retry_queue_nums)
        topic = self._topics.create_on_send(
            name,
            request.default_topic,
            request.default_topic_queue_nums,
            self.settings.queue_nums_max,
        )
        if topic is None:
            raise topic_unknown_on_send(name, self.settings.cluster)
        return topic

    def log_for(self, request: SendMessageRequest, peer: str) -> QueueLog:
        """Everything that must hold before a message may be stored, and where it goes.

        Raises:
            ResponseError: it may not.
        """
        if not self.settings.permission & flags.PERM_WRITE:
            raise no_permission(
                f"the broker takes no messages: its brokerPermission is {self.settings.permission}"
            )
        topic = self._topic_of(request)
        refusal = self._store.refusal
        if refusal is not None:
            raise unavailable(refusal)
        queue_id = request.queue_id
        if queue_id < 0:
            if not topic.write_queue_nums:
                raise queue_illegal(queue_id, topic, "write", peer)
            queue_id = self._chance.randrange(topic.write_queue_nums)
        elif queue_id >= topic.queue_nums_max:
            raise queue_illegal(queue_id, topic, "write", peer)
        try:
            return self._store.queue_log(request.topic, queue_id)
        except StoreError as e:
            raise unavailable(str(e)) from e

    def _check_body(self, body: bytes) -> None:
        if not body:
            raise response_error(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
        if len(body) > self.settings.body_size_max:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message body has {len(body)} bytes, the limit maxMessageSize of this broker "
                f"is {self.settings.body_size_max}",
            )

    def _check_batch_kind(self, sys_flag: int, properties: str) -> None:
        delay = _delay_property(properties)
        if delay is not None:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a batch cannot hold messages with the property {delay}: send delayed messages "
                f"one by one",
            )
        if asks_for_transaction(properties):
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch cannot hold transactional messages (TRAN_MSG): send them one by one",
            )
        _check_sys_flag(sys_flag)

    def _is_half(self, request: SendMessageRequest, properties: str) -> bool:
        """Whether a message waits for its producer's decision; refuses what could not end well."""
        is_retry = bool(request.reconsume_times) and delay_level_of(properties) > 0
        if is_retry or not asks_for_transaction(properties):
            _check_sys_flag(request.sys_flag)
            return False
        if self.settings.rejects_transactions:
            raise no_permission(
                "the broker sending transaction message is forbidden: its "
                "rejectTransactionMessage is true"
            )
        delay = _delay_property(properties)
        if delay is not None:  # RocketMQ would take it and drop it when it is due
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transactional message (TRAN_MSG) cannot be delayed: leave {delay} out",
            )
        if props.value_of(properties, props.PRODUCER_GROUP) is None:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                "a transactional message must name its producer group in the property PGROUP: "
                "nobody else can be asked about it",
            )
        return True

    # -- storing ------------------------------------------------------------------------------

    def _store_message(
        self, command: Command, request: SendMessageRequest, connection: Connection
    ) -> None:
        self._check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX):
            self._give_up_exhausted(command, request)
        queue_log = self.log_for(request, connection.remote_address)
        topic, queue_id, store_ms, deliver_ms = request.topic, queue_log.queue_id, 0, 0
        given = request.properties or ""
        is_special = _is_special(given)
        sys_flag, is_half = request.sys_flag, False
        if is_special:
            is_half = self._is_half(request, given)
        else:
            _check_sys_flag(sys_flag)
        unique, text = self._complete(given, is_special)
        if is_half:
            text = half_properties(text, topic, queue_id, unique)
            queue_log, topic = self._transactions.half_queue(), names.HALF_TOPIC
            sys_flag &= ~flags.TRANSACTION_MASK
        elif is_special:
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
            raise _does_not_fit(e) from e

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
        queue_log.append(record, code, Waiter(stored, _wants_flush(given)))
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
        self._check_body(command.body)
        if request.topic.startswith(names.RETRY_PREFIX) or len(request.topic) > 127:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                "a batch can go neither to a retry topic nor to one named with over 127 characters",
            )
        entries = decode_batch(command.body)
        self._check_entries(command.body, entries)
        queue_log = self.log_for(request, connection.remote_address)
        given = request.properties or ""
        if _is_special(given):
            self._check_batch_kind(request.sys_flag, given)
        else:
            _check_sys_flag(request.sys_flag)
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
            raise _does_not_fit(e) from e

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

        waiter = Waiter(stored, _wants_flush(given))
        queue_log.append_many(batch.records, batch.entries, len(entries), waiter)
        self._store.touch(queue_log)

    def _check_entries(self, body: bytes, entries: list[BatchEntry]) -> None:
        """Finds what is wrong with any message of a batch before the first of them is appended."""
        is_special = any(mark in body for mark in _LATER_MARKS)
        for index, (_, _, properties) in enumerate(entries):
            if len(properties) > props.PROPERTIES_SIZE_MAX:
                raise response_error(
                    ResponseCode.MESSAGE_ILLEGAL,
                    f"the properties of message {index} of the batch have {len(properties)} bytes, "
                    f"the limit is {props.PROPERTIES_SIZE_MAX}",
                )
            try:
                text = properties.decode()
            except UnicodeDecodeError as e:
                raise response_error(
                    ResponseCode.MESSAGE_ILLEGAL,
                    f"the properties of message {index} of the batch are no UTF-8: {e}",
                ) from e
            if is_special:
                self._check_batch_kind(0, text)

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


def _delay_property(properties: str) -> str | None:
    """The property by which a message asks for a later delivery; None for at once."""
    if delay_level_of(properties) > 0:
        return props.DELAY
    for name in props.TIMER_PROPERTIES:
        if props.value_of(properties, name) not in _ASKS_FOR_NOTHING:
            return name
    return None


def _check_sys_flag(sys_flag: int) -> None:
    """For messages whose properties say that they are not transactional."""
    if sys_flag & flags.TRANSACTION_MASK == flags.TRANSACTION_PREPARED:
        raise response_error(
            ResponseCode.MESSAGE_ILLEGAL,
            "the sysFlag says that the message is transactional, its properties do not: set "
            "TRAN_MSG to true",
        )


def _wants_flush(properties: str) -> bool:
    # The quick look spares most messages the exact one: "WAIT" may end another property's name.
    return "WAIT\x01false" not in properties or props.value_of(properties, props.WAIT) != "false"


def _does_not_fit(error: struct.error) -> ResponseError:
    return response_error(
        ResponseCode.MESSAGE_ILLEGAL,
        f"a number in the request does not fit into a stored message: {error}",
    )
