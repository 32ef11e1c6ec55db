"""Formats messages for `pocketmq tail`: as JSON, or by a format string like kcat's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message_json import message_line

if TYPE_CHECKING:
    from pocketmq.protocol.messages.message import ReceivedMessage

MessageFormat = Callable[["ReceivedMessage"], bytes]
"""Returns the bytes to write for a message."""


def _keys(message: ReceivedMessage) -> bytes:
    return message.properties.get(props.KEYS, "").encode()


def _properties(message: ReceivedMessage) -> bytes:
    own = (f"{k}={v}" for k, v in sorted(message.properties.items())
           if k not in (props.KEYS, props.TAGS))  # fmt: skip
    return ",".join(own).encode()


FIELDS: dict[str, tuple[str, MessageFormat]] = {
    "t": ("topic", lambda m: m.topic.encode()),
    "b": ("broker", lambda m: m.broker_name.encode()),
    "p": ("queue", lambda m: b"%d" % m.queue_id),
    "q": ("queue, as %p", lambda m: b"%d" % m.queue_id),
    "o": ("offset in the queue", lambda m: b"%d" % m.queue_offset),
    "k": ("keys, separated by spaces", _keys),
    "K": ("bytes of the keys", lambda m: b"%d" % len(_keys(m))),
    "g": ("tag", lambda m: (m.tags or "").encode()),
    "h": ("other properties, as name=value,…", _properties),
    "i": ("message id", lambda m: m.msg_id.encode()),
    "s": ("body", lambda m: bytes(m.body)),
    "S": ("bytes of the body", lambda m: b"%d" % len(m.body)),
    "T": ("when it was stored, ms", lambda m: b"%d" % m.store_timestamp),
    "B": ("when it was sent, ms", lambda m: b"%d" % m.born_timestamp),
    "%": ("a percent sign", lambda _: b"%"),
}
"""Fields of a format string, by the letter behind the percent sign."""

JSON = "json"
LINE = "line"

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_PART = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|[^%\\]+", re.DOTALL)


def fields_text() -> str:
    """Lists all fields with their meanings, for the command's help."""
    return ", ".join(f"%{letter} {meaning}" for letter, (meaning, _) in FIELDS.items())


def message_format(text: str, delimiter: bytes = b"\n") -> MessageFormat:
    """Reads ``line`` (bodies), ``json``, or a format string.

    Args:
        text: the value of the option.
        delimiter: the bytes that follow each message of ``line``.

    Raises:
        UsageError: a field is unknown, or the string has no field.
    """
    if text == LINE:
        return lambda message: bytes(message.body) + delimiter
    if text == JSON:
        return lambda message: message_line(message) + b"\n"
    parts: list[bytes | MessageFormat] = []
    for match in _PART.finditer(text):
        field, escape = match.groups()
        if field is not None:
            parts.append(_field(text, field))
        else:
            parts.append(match[0].encode() if escape is None else escaped(escape, text))
    if not any(callable(part) for part in parts):
        raise UsageError(
            f"--format {text!r} shows nothing of a message: write line, json, or a format with "
            f"fields such as '%k %s\\n'"
        )
    return lambda message: b"".join(p if isinstance(p, bytes) else p(message) for p in parts)


def delimiter_of(text: str) -> bytes:
    r"""Reads a delimiter with the escapes ``\n``, ``\t``, ``\0`` and ``\x1e``.

    Raises:
        UsageError: the delimiter is empty, or an escape is unknown.
    """
    if not text:
        raise UsageError("a delimiter is empty: give at least one character")
    parts = re.finditer(r"\\(x[0-9a-fA-F]{2}|.?)|[^\\]+", text, re.DOTALL)
    return b"".join(m[0].encode() if m[1] is None else escaped(m[1], text) for m in parts)


def escaped(escape: str, text: str) -> bytes:
    """Reads the escape behind a backslash.

    Raises:
        UsageError: the escape is unknown.
    """
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    value = _ESCAPES.get(escape)
    if value is None:
        raise UsageError(
            f"\\{escape} in {text!r} is unknown: there are \\n, \\r, \\t, \\0, \\\\ and \\xHH"
        )
    return value


def _field(text: str, letter: str) -> MessageFormat:
    known = FIELDS.get(letter)
    if known is None:
        raise UsageError(f"%{letter} in --format {text!r} is unknown: there are {fields_text()}")
    return known[1]
