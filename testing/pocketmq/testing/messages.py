"""The list of messages that tests get, and how messages are printed."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.text import counted

SHOWN_MAX = 20
"""Messages that a text shows; of further ones it shows the count."""

BODY_SHOWN_MAX = 60
"""Bytes of a body that a text shows."""

_OWN = {props.TAGS, props.KEYS, props.UNIQ_KEY, props.WAIT, props.MSG_REGION, props.TRACE_ON,
        props.CLUSTER}  # fmt: skip
"""Properties that are left out: shown elsewhere in the line, or present in every message."""


class Messages(list[ReceivedMessage]):
    """Messages of a topic, oldest first; its repr shows them one by one."""

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the messages."""
        return [message.body for message in self]

    @property
    def tags(self) -> list[str | None]:
        """The tags of the messages."""
        return [message.tags for message in self]

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The keys of the messages."""
        return [message.keys for message in self]

    def __repr__(self) -> str:
        return (
            f"<{counted(len(self), 'message')}{''.join(f'; {shown(m)}' for m in self[:SHOWN_MAX])}>"
        )


def shown(message: ReceivedMessage) -> str:
    """Formats a message on one line."""
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
    """Formats messages as lines for the text of an assertion."""
    found = list(messages)
    lines = [f"\n  {shown(message)}" for message in found[:SHOWN_MAX]]
    if len(found) > SHOWN_MAX:
        lines.append(f"\n  … and {len(found) - SHOWN_MAX} more")
    return "".join(lines) or "\n  (none)"
