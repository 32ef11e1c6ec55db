"""Messages as tests look at them: a list that shows what is in it."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage

SHOWN_MAX = 20
"""Messages that a text shows; of more it shows how many there are."""

BODY_SHOWN_MAX = 60
"""Bytes of a body that are shown."""

_OWN = {props.TAGS, props.KEYS, props.UNIQ_KEY, props.WAIT, props.MSG_REGION, props.TRACE_ON,
        props.CLUSTER}  # fmt: skip
"""Properties that are shown otherwise, or that every message has."""


class Messages(list[ReceivedMessage]):
    """Messages of a topic, oldest first; printed, it shows them one by one."""

    @property
    def bodies(self) -> list[bytes]:
        """What they hold."""
        return [message.body for message in self]

    @property
    def tags(self) -> list[str | None]:
        """Their tags."""
        return [message.tags for message in self]

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """Their keys."""
        return [message.keys for message in self]

    def __repr__(self) -> str:
        return f"<{counted(len(self))}{''.join(f'; {shown(m)}' for m in self[:SHOWN_MAX])}>"


def counted(count: int, noun: str = "message") -> str:
    """A number of things in words."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shown(message: ReceivedMessage) -> str:
    """One message on one line."""
    body = message.body
    text = repr(body[:BODY_SHOWN_MAX]) + ("…" if len(body) > BODY_SHOWN_MAX else "")
    parts = [f"{message.topic} queue {message.queue_id} offset {message.queue_offset}: {text}"]
    if message.tags:
        parts.append(f"tags={message.tags}")
    if message.keys:
        parts.append(f"keys={' '.join(message.keys)}")
    if message.reconsume_times:
        parts.append(f"reconsume_times={message.reconsume_times}")
    further = {k: v for k, v in message.properties.items() if k not in _OWN}
    parts += [f"{name}={value}" for name, value in sorted(further.items())]
    return " ".join(parts)


def listing(messages: Iterable[ReceivedMessage]) -> str:
    """Messages in lines, for the text of an assertion."""
    found = list(messages)
    lines = [f"\n  {shown(message)}" for message in found[:SHOWN_MAX]]
    if len(found) > SHOWN_MAX:
        lines.append(f"\n  … and {len(found) - SHOWN_MAX} more")
    return "".join(lines) or "\n  (none)"
