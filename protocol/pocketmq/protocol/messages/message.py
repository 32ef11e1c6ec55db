"""Messages as applications see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.hosts import decode_host
from pocketmq.protocol.messages.ids import offset_msg_id

DELAY_LEVEL_MAX = 18
"""The last level of the ladder that brokers have unless `messageDelayLevel` says otherwise."""

TAGS_SEPARATOR = "||"
"""Stands between the tags of a subscription, so that no subscription can name a tag with it."""


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


def check_tag(tag: str) -> None:
    """Refuses a tag that no subscription could name.

    Raises:
        UsageError: it holds ``||``.
    """
    if TAGS_SEPARATOR in tag:
        raise UsageError(
            f"the tag {tag!r} holds ||, which separates the tags of a subscription: a message has "
            f"one tag, and no consumer could subscribe to this one"
        )


def check_delay_level(level: int) -> None:
    """Refuses a level that RocketMQ's ladder does not have.

    Raises:
        UsageError: it is not between 0 and 18.
    """
    if not 0 <= level <= DELAY_LEVEL_MAX:
        raise UsageError(
            f"the delay level is {level}: it must be between 1 and {DELAY_LEVEL_MAX} (0 for at "
            f"once); for a broker whose messageDelayLevel has more, set the property DELAY"
        )


class Message:
    """A message to send.

    Args:
        topic: where it goes.
        body: its content; text is encoded as UTF-8.
        tags: one tag, by which consumers can choose; without ``||``, which separates the tags of
            a subscription.
        keys: business keys, by which the message can be found.
        properties: further properties of the application.
        sharding_key: decides the queue where a hash selector is used, and names the order.
        delay_level: 1 to 18; 0 for at once. A further level, of a broker whose
            `messageDelayLevel` has more, is given as the property ``DELAY``.
        delay_ms: deliver so many milliseconds after the broker took it (by default up to three
            days); 0 for at once.
        deliver_at_ms: deliver at this time, milliseconds since the epoch; 0 for at once.
        flag: a number of the application's own.
        wait_store_ok: answer only when flushed and replicated as the broker is configured.

    Raises:
        UsageError: more than one of the three delays is given, or a negative one; the level is
            above 18; a key holds a space, or the tag ``||``.
    """

    __slots__ = ("body", "flag", "properties", "topic")

    def __init__(
        self,
        topic: str,
        body: bytes | str = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        delay_level: int = 0,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        flag: int = 0,
        wait_store_ok: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body.encode() if isinstance(body, str) else body
        self.flag = flag
        self.properties: dict[str, str] = dict(properties) if properties else {}
        if tags:
            check_tag(tags)
            self.properties[props.TAGS] = tags
        if keys:
            self.keys = (keys,) if isinstance(keys, str) else tuple(keys)
        if sharding_key:
            self.properties[props.SHARDING_KEY] = sharding_key
        if delay_level:
            check_delay_level(delay_level)
            self.properties[props.DELAY] = str(delay_level)
        if delay_ms or deliver_at_ms:
            self._set_timer(delay_level, delay_ms, deliver_at_ms)
        self.properties[props.WAIT] = "true" if wait_store_ok else "false"

    def _set_timer(self, delay_level: int, delay_ms: int, deliver_at_ms: int) -> None:
        given = [value for value in (delay_level, delay_ms, deliver_at_ms) if value]
        if len(given) > 1 or given[0] < 0:
            raise UsageError(
                f"delay_level={delay_level}, delay_ms={delay_ms}, deliver_at_ms={deliver_at_ms}: "
                f"give one of them, and none that is negative"
            )
        name = props.TIMER_DELAY_MS if delay_ms else props.TIMER_DELIVER_MS
        self.properties[name] = str(given[0])

    @property
    def tags(self) -> str | None:
        """The message's tag."""
        return self.properties.get(props.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The message's business keys."""
        return tuple(self.properties.get(props.KEYS, "").split())

    @keys.setter
    def keys(self, keys: tuple[str, ...]) -> None:
        if any(key.split() != [key] for key in keys):
            raise UsageError(f"a key is empty or holds a space, which separates keys: {keys!r}")
        self.properties[props.KEYS] = " ".join(keys)

    @property
    def sharding_key(self) -> str | None:
        """What decides the queue under a hash selector."""
        return self.properties.get(props.SHARDING_KEY)

    @property
    def unique_key(self) -> str | None:
        """The id that the sending client gave to the message (`UNIQ_KEY`)."""
        return self.properties.get(props.UNIQ_KEY)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the answer waits for flush and replication."""
        return self.properties.get(props.WAIT) != "false"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(topic={self.topic!r}, body=<{len(self.body)} bytes>)"


class ReceivedMessage(Message):
    """A stored message: what was sent, and what the broker knows of it.

    Attributes:
        broker_name: the broker it was pulled from.
        queue_id, queue_offset: its place in the topic.
        physical_offset: its place in the broker's store.
        sys_flag: bits of `pocketmq.protocol.flags`; COMPRESSED is set where the body could not be
            unpacked and is as it is stored.
        born_timestamp, store_timestamp: when it was sent and stored, milliseconds.
        born_host, store_host: ``host:port`` of sender and broker.
        reconsume_times: how often it was sent back.
        prepared_transaction_offset: of its half message.
        body_crc: CRC-32 of the stored body, 31 bits.
        store_size: bytes of the stored record.
        offset_msg_id: its address in the store, for "view by id".
    """

    __slots__ = (
        "_born_host",
        "_offset_msg_id",
        "_properties",
        "_store_host",
        "body_crc",
        "born_timestamp",
        "broker_name",
        "physical_offset",
        "prepared_transaction_offset",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_size",
        "store_timestamp",
        "sys_flag",
    )

    broker_name: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    store_timestamp: int
    reconsume_times: int
    prepared_transaction_offset: int
    body_crc: int
    store_size: int

    # Bytes of the record, until somebody asks: few listeners look at all of a message.
    _properties: dict[str, str] | bytes
    _born_host: str | bytes
    _store_host: str | bytes
    _offset_msg_id: str | bytes  # as bytes: of the address in it

    def __init__(self) -> None:  # filled by `pocketmq.protocol.messages.records`
        pass

    def __getstate__(self) -> object:
        """A copy or a pickle holds what the message shows."""
        kept = {name: getattr(self, name) for name in _SHOWN if hasattr(self, name)}
        return getattr(self, "__dict__", None), kept

    @property
    def properties(self) -> dict[str, str]:
        """What the sender, its client and the broker say of the message, by name."""
        found = self._properties
        if isinstance(found, bytes):
            found = self._properties = props.decode(found.decode(errors="replace"))
        return found

    @properties.setter
    def properties(self, properties: dict[str, str]) -> None:
        self._properties = properties

    @property
    def born_host(self) -> str:
        """The sender's ``host:port``."""
        found = self._born_host
        if isinstance(found, bytes):
            found = self._born_host = decode_host(found)
        return found

    @born_host.setter
    def born_host(self, host: str) -> None:
        self._born_host = host

    @property
    def store_host(self) -> str:
        """The broker's ``host:port``."""
        found = self._store_host
        if isinstance(found, bytes):
            found = self._store_host = decode_host(found)
        return found

    @store_host.setter
    def store_host(self, host: str) -> None:
        self._store_host = host

    @property
    def offset_msg_id(self) -> str:
        """The message's address in the store, for "view by id"."""
        found = self._offset_msg_id
        if isinstance(found, bytes):
            found = self._offset_msg_id = offset_msg_id(found, self.physical_offset)
        return found

    @offset_msg_id.setter
    def offset_msg_id(self, msg_id: str) -> None:
        self._offset_msg_id = msg_id

    @property
    def msg_id(self) -> str:
        """The id given by the sending client, or else the offset message id."""
        return self.unique_key or self.offset_msg_id

    @property
    def queue(self) -> MessageQueue:
        """The queue that holds the message."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage({self.topic}@{self.broker_name}:{self.queue_id}"
            f"+{self.queue_offset}, id={self.msg_id}, body=<{len(self.body)} bytes>)"
        )


_SHOWN = (
    *Message.__slots__,
    *(name for name in ReceivedMessage.__slots__ if not name.startswith("_")),
    "born_host",
    "offset_msg_id",
    "store_host",
)
