"""Making send requests of messages: checks, ids, compression, batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from pocketmq.client.errors import BatchContentError
from pocketmq.client.hooks import CommunicationMode
from pocketmq.client.instance.identity import UniqueKeys
from pocketmq.client.settings import InstanceSettings, ProducerSettings
from pocketmq.protocol.errors import MessageSizeError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.batch import BatchEntry, encode_batch
from pocketmq.protocol.messages.compression import compress
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.records import RECORD_SIZE_MIN
from pocketmq.protocol.names.names import RETRY_PREFIX, check_topic
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.protocol.requests.sending import (
    SendBatchRequest,
    SendMessageV2Request,
    SendReplyRequest,
)
from pocketmq.runtime.clock import Clock

TOPICS_MAX = 1024
"""Topics whose names are known to be good, and for which a request is drafted."""

_BYTES = (bytes, bytearray, memoryview)
IPV6_EXTRA_SIZE = 24
"""How much larger a stored record is when both of its hosts are IPv6."""


class Outgoing(msgspec.Struct, eq=False):
    """A send request that lacks only its queue.

    Attributes:
        header: its queue and broker are set anew for each attempt.
        body: as it travels.
        msg_id: the client's own id; for a batch a comma list.
        count: how many messages it carries.
        source: the messages that it was made of.
        mode: how its answer is waited for.
    """

    header: SendMessageV2Request
    body: bytes
    msg_id: str
    count: int = 1
    source: Message | Sequence[Message] = ()
    mode: CommunicationMode = CommunicationMode.SYNC

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the request."""
        return (self.source,) if isinstance(self.source, Message) else self.source

    @property
    def is_batch(self) -> bool:
        """Whether the request is one of a batch, also if that is of one message."""
        return not isinstance(self.source, Message)

    def encode_properties_anew(self) -> None:
        """Encodes the properties of a single message again, after hooks changed them.

        Raises:
            MessageSizeError, UsageError: they cannot be sent.
        """
        if isinstance(self.source, Message):
            self.header.properties = _encoded(self.source.properties)


def _encoded(properties: dict[str, str]) -> str:
    text = props.encode(properties)
    if len(text) > props.PROPERTIES_SIZE_MAX or not text.isascii():
        props.encode_checked(properties)
    return text


class Packer:
    """Makes send requests of messages.

    Args:
        group: the producer group.
        clock: stamps messages.
        unique_keys: names messages.
        settings: limits and compression.
        instance: what unknown topics are created like, and the namespace they are in.
    """

    def __init__(
        self,
        group: str,
        clock: Clock,
        unique_keys: UniqueKeys,
        settings: ProducerSettings,
        instance: InstanceSettings,
    ) -> None:
        self._group, self._clock, self._unique_keys = group, clock, unique_keys
        self._settings, self._instance = settings, instance
        self._namespace = Namespace(instance.namespace)
        self._draft = lru_cache(maxsize=TOPICS_MAX)(self._new_draft)

    def pack(self, message: Message) -> Outgoing:
        """Makes the request for one message; gives the message an id if it has none.

        Raises:
            IllegalNameError, MessageSizeError, UsageError: it cannot be sent.
        """
        drafted = self._draft(message.topic)
        self._check_body(message)
        properties, body = message.properties, message.body
        msg_id = properties.get(props.UNIQ_KEY)
        if msg_id is None:
            msg_id = properties[props.UNIQ_KEY] = self._unique_keys.next()
        header = drafted()
        if len(body) >= self._settings.compress_body_over_size:
            packed, flag = compress(body, self._settings.compress_level)
            if len(packed) < len(body):
                body, header.sys_flag = packed, flag
        header.born_timestamp = self._clock.now_ms()
        header.flag = message.flag
        header.properties = _encoded(properties)
        if properties.get(props.MESSAGE_TYPE) == props.REPLY:
            header = SendReplyRequest(**msgspec.structs.asdict(header))
        return Outgoing(header, body, msg_id, 1, message)

    def _new_draft(self, topic: str) -> Callable[[], SendMessageV2Request]:
        """Checks a topic's name; returns a function that makes what its requests begin with."""
        check_topic(topic)
        header: Any = SendMessageV2Request(
            producer_group=self._group,
            topic=topic,
            default_topic=self._instance.create_topic_key,
            default_topic_queue_nums=self._instance.default_topic_queue_nums,
            queue_id=0,
            born_timestamp=0,
        )
        copy: Callable[[], SendMessageV2Request] = header.__copy__
        return copy

    def pack_batches(self, messages: Sequence[Message]) -> Iterator[Outgoing]:
        """Makes the requests for messages of one topic: as few as the size limit allows.

        All messages are checked before the first request is made. The limit holds for the records
        as the broker stores them, since that is what it checks.

        Raises:
            BatchContentError, IllegalNameError, MessageSizeError, UsageError.
        """
        self._check_batch(messages)
        topic = messages[0].topic
        overhead = RECORD_SIZE_MIN + IPV6_EXTRA_SIZE + len(self._namespace.wrap(topic))
        entries: list[BatchEntry] = []
        part: list[Message] = []
        packed: list[tuple[list[BatchEntry], list[Message]]] = [(entries, part)]
        size, size_max = 0, self._settings.max_message_size
        for message in messages:
            message.properties.setdefault(
                props.UNIQ_KEY, message.unique_key or self._unique_keys.next()
            )
            entry = BatchEntry(message.flag, message.body, props.encode_checked(message.properties))
            entry_size = overhead + len(entry.body) + len(entry.properties)
            if entries and size + entry_size > size_max:
                entries, part, size = [], [], 0
                packed.append((entries, part))
            entries.append(entry)
            part.append(message)
            size += entry_size
        wait = {props.WAIT: "true" if messages[0].wait_store_ok else "false"}
        return (self._batch(topic, wait, entries, part) for entries, part in packed)

    def _batch(
        self,
        topic: str,
        properties: dict[str, str],
        entries: list[BatchEntry],
        messages: list[Message],
    ) -> Outgoing:
        header = SendBatchRequest(
            producer_group=self._group,
            topic=topic,
            default_topic=self._instance.create_topic_key,
            default_topic_queue_nums=self._instance.default_topic_queue_nums,
            queue_id=0,
            born_timestamp=self._clock.now_ms(),
            properties=props.encode(properties),
            batch=True,
        )
        ids = ",".join(m.properties[props.UNIQ_KEY] for m in messages)
        return Outgoing(header, encode_batch(entries), ids, len(entries), messages)

    def _check_body(self, message: Message) -> None:
        body = message.body
        if not isinstance(body, _BYTES):
            raise UsageError(
                f"the body of a message for topic {message.topic} is {body!r:.100}: give bytes"
            )
        size = len(body)
        if size > self._settings.max_message_size:
            raise MessageSizeError("body", size, self._settings.max_message_size)
        if size == 0:
            raise UsageError(
                f"a message for topic {message.topic} has no body, which brokers refuse: "
                f"give it at least one byte"
            )

    def _check_batch(self, messages: Sequence[Message]) -> None:
        if not messages:
            raise BatchContentError("a batch needs at least one message")
        first = messages[0]
        for message in messages:
            self._draft(message.topic)
            self._check_body(message)
            if message.topic != first.topic:
                raise BatchContentError(
                    f"a batch goes to one topic, this one names {first.topic} and {message.topic}"
                )
            if message.wait_store_ok != first.wait_store_ok:
                raise BatchContentError("all messages of a batch must have the same wait_store_ok")
            properties = message.properties
            if props.DELAY in properties or any(p in properties for p in props.TIMER_PROPERTIES):
                raise BatchContentError("delayed messages cannot be sent in a batch")
            if props.TRANSACTION_PREPARED in properties:
                raise BatchContentError("transactional messages cannot be sent in a batch")
            if properties.get(props.MESSAGE_TYPE) == props.REPLY:
                raise BatchContentError("replies cannot be sent in a batch")
        if first.topic.startswith(RETRY_PREFIX):
            raise BatchContentError("a retry topic takes no batches")
