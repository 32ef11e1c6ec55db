"""Attributes of topics and groups (`common/attribute`)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pocketmq.protocol.bodies.topics import RESERVE_TIME, RETENTION_BYTES
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError, response_error

_LONG_MAX = (1 << 63) - 1


class Attribute(msgspec.Struct, frozen=True):
    """What an attribute may be; one that says nothing may be any text.

    Attributes:
        words: one of these.
        span: a number from the first to the second.
        meaning: of the number, for who gave another value.
        changeable: whether it may be changed after the creation.
    """

    words: tuple[str, ...] = ()
    span: tuple[int, int] | None = None
    meaning: str = ""
    changeable: bool = True


TOPIC_ATTRIBUTES: Mapping[str, Attribute] = {
    "queue.type": Attribute(("BatchCQ", "SimpleCQ"), changeable=False),
    "cleanup.policy": Attribute(("DELETE", "COMPACTION"), changeable=False),
    "message.type": Attribute(
        ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED")
    ),
    RESERVE_TIME: Attribute(
        span=(-1, _LONG_MAX), meaning="hours, or -1 for as long as the broker says"
    ),
    RETENTION_BYTES: Attribute(
        span=(-1, _LONG_MAX), meaning="bytes on each broker, or -1 for any number"
    ),
    "lite.topic.expiration": Attribute(span=(-1, 30 * 24 * 60)),
}
"""What a topic may have (`TopicAttributes`); the number of bytes is PocketMQ's own."""

GROUP_ATTRIBUTES: Mapping[str, Attribute] = {
    "priority.factor": Attribute(span=(0, 100)),
    "lite.bind.topic": Attribute(),
    "lite.sub.model": Attribute(("Shared", "Exclusive")),
    "lite.sub.reset.offset.exclusive": Attribute(("true", "false")),
    "lite.sub.reset.offset.unsubscribe": Attribute(("true", "false")),
    "lite.sub.client.quota": Attribute(span=(-1, _LONG_MAX)),
    "lite.sub.client.max.event.cnt": Attribute(span=(10, _LONG_MAX)),
    "lite.sub.wildcard": Attribute(),
}
"""What a group may have (`SubscriptionGroupAttributes`)."""


def changed_attributes(
    allowed: Mapping[str, Attribute], known: Mapping[str, str] | None, given: Mapping[str, str]
) -> dict[str, str]:
    """Applies attributes: ``+name`` sets and ``-name`` removes (`AttributeUtil`).

    A plain name sets as well, so that settings that were read can be sent back.

    Args:
        allowed: TOPIC_ATTRIBUTES or GROUP_ATTRIBUTES.
        known: what there is; None while topic or group are being created.
        given: the changes.

    Raises:
        ResponseError: 29, one has no name; 1, it is none that there is, or makes no sense there.
    """
    attributes = dict(known or {})
    for key, value in given.items():
        name = key[1:] if key[:1] in ("+", "-") else key
        if not name:
            raise _invalid(f"the attribute {key!r} has no name: give +name=value or -name")
        removes = key.startswith("-")
        if not removes and attributes.get(name) == value:
            continue
        _check(allowed, name, value, removes=removes, is_new=known is None)
        if removes:
            if name not in attributes:
                raise _refused(f"attempt to delete a nonexistent key: {name}")
            del attributes[name]
        else:
            attributes[name] = value
    return attributes


def _check(
    allowed: Mapping[str, Attribute], name: str, value: str, *, removes: bool, is_new: bool
) -> None:
    attribute = allowed.get(name)
    if attribute is None:
        raise _refused(f"unsupported key: {name}; there are {', '.join(allowed)}")
    if not (attribute.changeable or is_new):
        raise _refused(f"attempt to update an unchangeable attribute. key: {name}")
    if removes:
        return
    if attribute.words and value not in attribute.words:
        raise _refused(f"value is not in set: [{', '.join(attribute.words)}]")
    if attribute.span is not None:
        low, high = attribute.span
        if not _is_number(value) or not low <= int(value) <= high:
            meaning = f": {attribute.meaning}" if attribute.meaning else ""
            raise _refused(f"value is not in range({low}, {high}): {name} is {value}{meaning}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def parse_attributes(text: str | None) -> dict[str, str]:
    """Reads ``+name=value,-name`` (`AttributeParser`).

    Raises:
        ResponseError: 29, a part is neither of the two.
    """
    given = {}
    for part in (text or "").split(","):
        part = part.strip()
        if not part:
            continue
        key, separator, value = part.partition("=")
        sets = key[0] == "+" and separator
        removes = key[0] == "-" and not separator
        if len(key) < 2 or not (sets or removes):
            raise _invalid(f"the attribute {part!r} is neither +key=value nor -key")
        given[key] = value
    return given


def _invalid(remark: str) -> ResponseError:
    return response_error(ResponseCode.INVALID_PARAMETER, remark)


def _refused(remark: str) -> ResponseError:
    return response_error(ResponseCode.SYSTEM_ERROR, remark)
