"""The body of a broker's registration in its three forms (wire.md §4.2), as a name server reads it.

JSON is the usual one. Brokers older than V3_0_11 send their topics only. The compressed form is one
zlib stream of length-prefixed parts, with the queue mappings at the end from V5_0_0 on
(`remoting/protocol/body/RegisterBrokerBody`).
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator

import msgspec
from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import DataVersion, TopicQueueMapping
from pocketmq.protocol.codes import Version
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.messages.compression import decompress
from pocketmq.protocol.wire import loose_json

_LENGTH = struct.Struct(">i")

TOPICS_PER_STEP = 500
"""Topics that one step of `registration_steps` reads: about 0.5 ms, compressed 2 ms."""


class RegisteredTopic(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """What a route needs of a topic's settings (`topics.TopicConfig`)."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ | PERM_WRITE
    topic_sys_flag: int = 0


class RegisteredTopics(msgspec.Struct, kw_only=True):
    """The topics of a registration, which may be all of a broker or those that changed."""

    version: DataVersion = DataVersion()
    topics: list[RegisteredTopic] = field(default_factory=list)
    mappings: dict[str, TopicQueueMapping] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


class _Table(Body, kw_only=True):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, RegisteredTopic] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMapping] = field(default_factory=dict)


class RegistrationBody(Body, kw_only=True):
    """The topics of a registration as JSON has them."""

    topic_config_serialize_wrapper: _Table = field(default_factory=_Table)
    removed_topics: list[str] = field(default_factory=list)


class _UnreadTable(Body, kw_only=True):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, msgspec.Raw] = field(default_factory=dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMapping] = field(default_factory=dict)


class _UnreadRegistration(Body, kw_only=True):
    topic_config_serialize_wrapper: _UnreadTable = field(default_factory=_UnreadTable)
    removed_topics: list[str] = field(default_factory=list)


def read_registration(body: bytes, *, compressed: bool, version: int) -> RegisteredTopics:
    """Reads the topics in the body of a broker's registration.

    Args:
        body: as received; empty means no topics.
        compressed: whether the request's header says so.
        version: the ordinal of the sender's version.

    Raises:
        ContentError: it cannot be read.
    """
    if not body:
        return RegisteredTopics()
    if compressed and version >= Version.V3_0_11:
        steps = registration_steps(body, compressed=compressed, version=version)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                topics: RegisteredTopics = end.value
                return topics
    removed: list[str] = []
    if version < Version.V3_0_11:
        table = _Table.decode(body)
    else:
        registration = RegistrationBody.decode(body)
        table, removed = registration.topic_config_serialize_wrapper, registration.removed_topics
    return RegisteredTopics(
        version=table.data_version,
        topics=list(table.topic_config_table.values()),
        mappings=table.topic_queue_mapping_info_map,
        removed=removed,
    )


def registration_steps(
    body: bytes, *, compressed: bool, version: int
) -> Generator[None, None, RegisteredTopics]:
    """Reads the same from a large body in steps, of which none takes long; returns it at the end.

    Raises:
        ContentError: it cannot be read, or is JSON that `read_registration` would read slowly.
    """
    if compressed and version >= Version.V3_0_11:
        return (yield from _compressed_steps(body, has_mappings=version >= Version.V5_0_0))
    removed: list[str] = []
    try:
        if version < Version.V3_0_11:
            table = msgspec.json.decode(body, type=_UnreadTable, strict=False)
        else:
            registration = msgspec.json.decode(body, type=_UnreadRegistration, strict=False)
            table = registration.topic_config_serialize_wrapper
            removed = registration.removed_topics
        read = msgspec.json.Decoder(RegisteredTopic, strict=False).decode
        topics: list[RegisteredTopic] = []
        for unread in table.topic_config_table.values():
            topics.append(read(unread))
            if len(topics) % TOPICS_PER_STEP == 0:
                yield
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ContentError(f"the body is no registration in standard JSON: {e}") from e
    return RegisteredTopics(
        version=table.data_version,
        topics=topics,
        mappings=table.topic_queue_mapping_info_map,
        removed=removed,
    )


def read_topic(text: str) -> RegisteredTopic:
    """Reads a topic's settings in their string form, such as ``T 4 4 6 SINGLE_TAG {}``.

    Raises:
        ContentError: it is not of that form.
    """
    parts = text.split(" ", 4)
    if len(parts) < 5:
        raise ContentError(f"the topic settings {text!r} have fewer than five parts")
    try:
        return RegisteredTopic(
            topic_name=parts[0],
            read_queue_nums=int(parts[1]),
            write_queue_nums=int(parts[2]),
            perm=int(parts[3]),
        )
    except ValueError as e:
        raise ContentError(f"the topic settings {text!r} cannot be read: {e}") from e


def _compressed_steps(
    body: bytes, *, has_mappings: bool
) -> Generator[None, None, RegisteredTopics]:
    parts = _Parts(decompress(body, 0))
    found = RegisteredTopics(version=loose_json.decode(parts.next(), DataVersion))
    for part in parts.counted():
        found.topics.append(read_topic(_text(part)))
        if len(found.topics) % TOPICS_PER_STEP == 0:
            yield
    parts.next()  # the filter servers, which nobody has any more
    if has_mappings:
        for number, part in enumerate(parts.counted()):
            mapping = TopicQueueMapping.decode(part)
            found.mappings[mapping.topic or ""] = mapping
            if number % TOPICS_PER_STEP == 0:
                yield
    return found


def _text(part: bytes) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError as e:
        raise ContentError(f"a compressed registration holds text that is no UTF-8: {e}") from e


class _Parts:
    """A cursor over length-prefixed parts."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def next(self) -> bytes:
        """Returns the next part."""
        size = self._number()
        start = self._at
        if size > len(self._data) - start:
            raise ContentError("a compressed registration ends in the middle of a part")
        self._at = start + size
        return self._data[start : self._at]

    def counted(self) -> Iterator[bytes]:
        """Reads a count, and yields as many parts."""
        for _ in range(self._number()):
            yield self.next()

    def _number(self) -> int:
        if len(self._data) - self._at < _LENGTH.size:
            raise ContentError("a compressed registration ends too early")
        (number,) = _LENGTH.unpack_from(self._data, self._at)
        self._at += _LENGTH.size
        if number < 0:
            raise ContentError(f"a compressed registration announces {number} bytes or parts")
        return int(number)
