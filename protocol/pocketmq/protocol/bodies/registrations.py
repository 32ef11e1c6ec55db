"""The body of a broker's registration in its three forms (wire.md §4.2).

JSON is the usual one. Brokers older than V3_0_11 send their topics only. The compressed form is one
zlib stream of length-prefixed parts, with the queue mappings at the end from V5_0_0 on
(`remoting/protocol/body/RegisterBrokerBody`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicQueueMapping,
)
from pocketmq.protocol.codes import Version
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.compression import decompress
from pocketmq.protocol.wire import loose_json

_LENGTH = struct.Struct(">i")


def read_registration(body: bytes, *, compressed: bool, version: int) -> RegisterBrokerBody:
    """Reads the topics in the body of a broker's registration.

    Args:
        body: as received; empty means no topics.
        compressed: whether the request's header says so.
        version: the ordinal of the sender's version.

    Raises:
        ContentError: it cannot be read.
    """
    if not body:
        return RegisterBrokerBody()
    if version < Version.V3_0_11:
        return RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigTable.decode(body))
    if compressed:
        return _read_compressed(body, has_mappings=version >= Version.V5_0_0)
    return RegisterBrokerBody.decode(body)


def read_topic_config(text: str) -> TopicConfig:
    """Reads a topic's settings in their string form, such as ``T 4 4 6 SINGLE_TAG {}``.

    Raises:
        ContentError: it is not of that form.
    """
    parts = text.split(" ", 5)
    if len(parts) < 5:
        raise ContentError(f"the topic settings {text!r} have fewer than five parts")
    attributes = parts[5].strip() if len(parts) > 5 else ""
    try:
        return TopicConfig(
            topic_name=parts[0],
            read_queue_nums=int(parts[1]),
            write_queue_nums=int(parts[2]),
            perm=int(parts[3]),
            topic_filter_type=parts[4],
            attributes=loose_json.decode(attributes.encode(), dict[str, str]) if attributes else {},
        )
    except ValueError as e:
        raise ContentError(f"the topic settings {text!r} cannot be read: {e}") from e


def _read_compressed(body: bytes, *, has_mappings: bool) -> RegisterBrokerBody:
    parts = _Parts(decompress(body, 0))
    table = TopicConfigTable(data_version=loose_json.decode(parts.next(), DataVersion))
    for part in parts.counted():
        config = read_topic_config(_text(part))
        table.topic_config_table[config.topic_name] = config
    filter_servers = loose_json.decode(parts.next(), list[str])
    if has_mappings:
        for part in parts.counted():
            mapping = TopicQueueMapping.decode(part)
            table.topic_queue_mapping_info_map[mapping.topic or ""] = mapping
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=table, filter_server_list=filter_servers
    )


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
