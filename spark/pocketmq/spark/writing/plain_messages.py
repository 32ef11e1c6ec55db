"""Makes ordinary messages of the rows that cannot be sent in bulk: delayed and too large ones.

The broker holds back only messages that come by its ordinary send, and a row that is too large for
its topic goes to another one. Each of these messages costs several times as much as a row in bulk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message
from pocketmq.spark.rows.encoding import DELAY_PROPERTIES, OWN_PROPERTIES
from pocketmq.spark.rows.marks import MARK_PROPERTIES
from pocketmq.spark.rows.rows import Rows

ORIGIN_TOPIC = "ORIGIN_TOPIC"
ORIGIN_SIZE = "ORIGIN_SIZE"
"""Properties of a diverted row: where it should have gone, and the size of its whole value."""

DIVERTED_SIZE_MAX = 1024 * 1024
"""Bytes of a diverted value; what is longer is cut, since the side topic has limits too."""

_LEFT_OUT = frozenset({*OWN_PROPERTIES, *MARK_PROPERTIES, *DELAY_PROPERTIES})


def delayed_messages(topic: str, rows: Rows) -> Iterator[Message]:
    """Makes messages that the broker holds back of rows with delays."""
    assert rows.delays is not None
    pairs = zip(rows.delays.levels.tolist(), rows.delays.at_ms.tolist(), strict=True)
    for row, (level, at_ms) in enumerate(pairs):
        message = _message(topic, rows, row)
        delayed = Message(topic, delay_level=level, deliver_at_ms=at_ms)
        message.properties.update(
            (name, value) for name, value in delayed.properties.items() if name in DELAY_PROPERTIES
        )
        yield message


def diverted_messages(side_topic: str, topic: str, rows: Rows) -> Iterator[Message]:
    """Makes messages of the side topic of rows that are too large for their topic."""
    for row in range(rows.size):
        message = _message(side_topic, rows, row)
        message.properties[ORIGIN_TOPIC] = topic
        message.properties[ORIGIN_SIZE] = str(len(message.body))
        message.body = message.body[:DIVERTED_SIZE_MAX]
        yield message


def _message(topic: str, rows: Rows, row: int) -> Message:
    given = rows.properties
    properties = dict(given[row].as_py() or ()) if given is not None else {}
    kept = {n: v for n, v in properties.items() if v and n not in _LEFT_OUT}
    message = Message(topic, rows.body[row].as_py(), properties=kept)
    for name, column in (
        (props.KEYS, rows.keys),
        (props.TAGS, rows.tags),
        (props.SHARDING_KEY, rows.sharding_keys),
    ):
        value: Any = None if column is None else column[row].as_py()
        if value:
            message.properties[name] = value
    return message
