"""What a test expects of a message, and how a message differs from that."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.testing.messages import Messages, shown

ANY = object()
"""Stands for a body that is not looked at."""

NEAREST_SHOWN_MAX = 3
"""Messages that a failed expectation shows with their differences."""


class Expectation(NamedTuple):
    """A description that some messages fit.

    Attributes:
        body: the body, as bytes or as text.
        json: what the body means as JSON.
        key: one of the keys.
        tag: the tag.
        properties: properties that it has, among others.
    """

    body: bytes | str | None = None
    json: Any = ANY
    key: str | None = None
    tag: str | None = None
    properties: Mapping[str, str] = {}

    def check(self) -> None:
        """Refuses an expectation that every message fits.

        Raises:
            UsageError: nothing is expected.
        """
        if self == Expectation():
            raise UsageError("say what is expected: body, json, key, tag or properties")

    def of(self, messages: Iterable[ReceivedMessage]) -> Messages:
        """Returns the messages that fit."""
        return Messages(m for m in messages if not self.differences(m))

    def differences(self, message: ReceivedMessage) -> list[str]:
        """Returns a line for each part in which a message differs; none if it fits."""
        found = []
        if self.key is not None and self.key not in message.keys:
            found.append(f"keys: {self.key!r} is not among {list(message.keys)}")
        if self.tag is not None and self.tag != message.tags:
            found.append(f"tag: {message.tags!r} instead of {self.tag!r}")
        for name, value in self.properties.items():
            if message.properties.get(name) != value:
                seen = message.properties.get(name)
                found.append(f"property {name}: {seen!r} instead of {value!r}")
        if self.body is not None:
            body = self.body.encode() if isinstance(self.body, str) else self.body
            if body != message.body:
                found += _of_texts("body", _text(body), _text(message.body))
        if self.json is not ANY:
            found += self._of_json(message.body)
        return found

    def _of_json(self, body: bytes) -> list[str]:
        try:
            seen = json.loads(body)
        except ValueError as e:
            return [f"body: is no JSON ({e})"]
        if seen == self.json:
            return []
        return _of_texts("body", _pretty(self.json), _pretty(seen))

    def __str__(self) -> str:
        parts = {
            "body": self.body, "key": self.key, "tag": self.tag,
            "properties": dict(self.properties) or None,
        }  # fmt: skip
        said = [f"{name}={value!r}" for name, value in parts.items() if value is not None]
        if self.json is not ANY:
            said.insert(0, f"json={self.json!r}")
        return ", ".join(said)

    def nearest(self, messages: Iterable[ReceivedMessage]) -> str:
        """Lists the messages that are nearest to fitting, each with its differences."""
        ranked = sorted(messages, key=lambda m: len(self.differences(m)))
        lines = []
        for message in ranked[:NEAREST_SHOWN_MAX]:
            lines.append(f"\n  {shown(message)}")
            lines += [f"\n    {line}" for line in self.differences(message)]
        if len(ranked) > NEAREST_SHOWN_MAX:
            lines.append(f"\n  … and {len(ranked) - NEAREST_SHOWN_MAX} that differ more")
        return "".join(lines) or "\n  (none)"


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return repr(body)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def _of_texts(what: str, wanted: str, seen: str) -> list[str]:
    lines = difflib.ndiff(wanted.splitlines(), seen.splitlines())
    return [f"{what} (- expected, + found):", *(f"  {line}" for line in lines if line[0] != "?")]
