"""A message as conditions see it: names lead to properties, and into the decoded body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from pocketmq.console.decoding.pointers import MISSING, member
from pocketmq.protocol.messages.message import Message

BODY, PROPERTIES = "body", "properties"

_PART = re.compile(r'"([^"]*)"|([^."]+)')


class Content(Mapping[str, str]):
    """What names of a condition mean in a message.

    A name is a property's, or ``body`` for the body as text, or a place in the decoded body, as
    ``body.items.0.price``; ``properties."my-name"`` is a property with any name.

    Args:
        message: the message.
        value: its decoded body.
    """

    def __init__(self, message: Message, value: object = None) -> None:
        self._message, self._value = message, value

    def __getitem__(self, name: str) -> str:
        properties = self._message.properties
        if name in properties:
            return properties[name]
        if name == BODY:
            return self._message.body.decode("utf-8", "replace")
        first, *parts = parts_of(name)
        if first == PROPERTIES and len(parts) == 1:
            return properties[parts[0]]
        if first != BODY:
            raise KeyError(name)
        value = self._value
        for part in parts:
            value = member(value, part)
        text = _text(value)
        if text is None:
            raise KeyError(name)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._message.properties)

    def __len__(self) -> int:
        return len(self._message.properties)


def parts_of(name: str) -> list[str]:
    """Takes a name apart at its dots; quoted parts may have dots of their own."""
    return [quoted or bare for quoted, bare in _PART.findall(name)]


def _text(value: object) -> str | None:
    """A member as a property would hold it; None for null and for what is not there."""
    if value is None or value is MISSING:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _json(value)
    if isinstance(value, int) and value.bit_length() > 10_000:
        return None  # Python refuses to write it
    return str(value)


def _json(value: object) -> str | None:
    try:
        return msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None
