"""What must hold before a message is stored, and which log it goes to."""

from __future__ import annotations

import random
import struct

import msgspec

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.delay.levels import delay_level_of
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.refusals import (
    no_permission,
    queue_illegal,
    topic_unknown_on_send,
    unavailable,
)
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, WRITTEN, Durability, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.broker.transactions.half import asks_for_transaction
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalNameError, ResponseError, response_error
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.runtime.live import Live

_ASKS_FOR_NOTHING = (None, "0", "false")
"""Some SDKs set these on every message."""


_LATER_MARKS = [
    f"{name}\x01".encode()
    for name in (props.DELAY, props.TRANSACTION_PREPARED, *props.TIMER_PROPERTIES)
]


def is_special(properties: str) -> bool:
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
        body_size_max: bytes of one body.
        permission: of the whole broker, bits of `pocketmq.protocol.flags`.
        queue_nums_max: most queues of a topic made on its first message.
        trace_on: whether clients' traces are wanted.
        rejects_transactions: rejectTransactionMessage.
    """

    cluster: str
    region: str
    body_size_max: int
    permission: int
    queue_nums_max: int
    trace_on: bool
    rejects_transactions: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> SendSettings:
        """The part of a broker's settings that sends depend on."""
        return cls(
            cluster=config.broker_cluster_name,
            region=config.region_id,
            body_size_max=config.max_message_size,
            permission=config.broker_permission,
            queue_nums_max=config.default_topic_queue_nums,
            trace_on=config.trace_on,
            rejects_transactions=config.reject_transaction_message,
        )


class SendChecks:
    """Refuses what may not be stored; makes topics that are asked for by their first message.

    Args:
        topics, groups, store: of the broker.
        settings: what is checked.
        chance: picks a queue when the client leaves that to the broker.
    """

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        store: MessageStore,
        settings: Live[SendSettings],
        chance: random.Random,
    ) -> None:
        self._topics, self._groups, self._store = topics, groups, store
        self._settings, self._chance = settings, chance

    def _first_topic(self, request: SendMessageRequest) -> TopicConfig:
        """A topic that is asked for by its first message."""
        name = request.topic
        if name in names.SEND_FORBIDDEN_TOPICS:
            raise no_permission(f"Sending message to topic[{name}] is forbidden.")
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
            self._settings.now.queue_nums_max,
        )
        if topic is None:
            raise topic_unknown_on_send(name, self._settings.now.cluster)
        return topic

    def log_for(self, request: SendMessageRequest, peer: str) -> QueueLog:
        """Everything that must hold before a message may be stored, and where it goes.

        Raises:
            ResponseError: it may not.
        """
        permission = self._settings.now.permission
        if not permission & flags.PERM_WRITE:
            raise no_permission(
                f"the broker takes no messages: its brokerPermission is {permission}"
            )
        name, queue_id, store = request.topic, request.queue_id, self._store
        topic = self._topics.get(name)
        if topic is None or name in names.SEND_FORBIDDEN_TOPICS:
            topic = self._first_topic(request)
        if store.failed_reason or store.disk.full_reason:
            raise unavailable(store.refusal or "")
        if queue_id < 0:
            if not topic.write_queue_nums:
                raise queue_illegal(queue_id, topic, "write", peer)
            queue_id = self._chance.randrange(topic.write_queue_nums)
        elif queue_id >= topic.write_queue_nums and queue_id >= topic.queue_nums_max:
            raise queue_illegal(queue_id, topic, "write", peer)
        try:
            return store.queue_log(name, queue_id)
        except StoreError as e:
            raise unavailable(str(e)) from e

    def check_body(self, body: bytes) -> None:
        """Refuses a body that is empty or too large."""
        if not body:
            raise response_error(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
        if len(body) > self._settings.now.body_size_max:
            raise response_error(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the message body has {len(body)} bytes, the limit maxMessageSize of this broker "
                f"is {self._settings.now.body_size_max}",
            )

    def check_batch_kind(self, sys_flag: int, properties: str) -> None:
        """Refuses what a batch, or a message of it, may not ask for."""
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
        check_sys_flag(sys_flag)

    def is_half(self, request: SendMessageRequest, properties: str) -> bool:
        """Whether a message waits for its producer's decision; refuses what could not end well."""
        is_retry = bool(request.reconsume_times) and delay_level_of(properties) > 0
        if is_retry or not asks_for_transaction(properties):
            check_sys_flag(request.sys_flag)
            return False
        if self._settings.now.rejects_transactions:
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

    def check_entries(self, entries: list[tuple[int, bytes, bytes]]) -> None:
        """Finds what is wrong with any message of a batch before the first of them is appended."""
        together = b"".join([properties for _, _, properties in entries])
        is_special = [mark for mark in _LATER_MARKS if mark in together]
        if together.isascii() and not is_special and len(together) <= props.PROPERTIES_SIZE_MAX:
            return
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
                self.check_batch_kind(0, text)


def _delay_property(properties: str) -> str | None:
    """The property by which a message asks for a later delivery; None for at once."""
    if delay_level_of(properties) > 0:
        return props.DELAY
    for name in props.TIMER_PROPERTIES:
        if props.value_of(properties, name) not in _ASKS_FOR_NOTHING:
            return name
    return None


def check_sys_flag(sys_flag: int) -> None:
    """For messages whose properties say that they are not transactional."""
    if sys_flag & flags.TRANSACTION_MASK == flags.TRANSACTION_PREPARED:
        raise response_error(
            ResponseCode.MESSAGE_ILLEGAL,
            "the sysFlag says that the message is transactional, its properties do not: set "
            "TRAN_MSG to true",
        )


def check_properties_size(properties: bytes, size_max: int) -> None:
    """Refuses properties that do not fit into a record."""
    if len(properties) > size_max:
        raise response_error(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message properties have {len(properties)} bytes, the limit is {size_max}",
        )


def durability_of(properties: str) -> Durability:
    """How safe a message must be before its sender is answered (the property WAIT)."""
    # The quick look spares most messages the exact one: "WAIT" may end another property's name.
    if "WAIT\x01false" in properties and props.value_of(properties, props.WAIT) == "false":
        return WRITTEN
    return AS_CONFIGURED


def does_not_fit(error: struct.error) -> ResponseError:
    """The refusal of a message of which a number is too large for its place in a record."""
    return response_error(
        ResponseCode.MESSAGE_ILLEGAL,
        f"a number in the request does not fit into a stored message: {error}",
    )
