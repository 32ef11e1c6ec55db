"""Rows that cannot take the bulk path, as ordinary messages: delayed ones, and too large ones.

The broker holds back only what comes by its ordinary send, and what is too large for a topic goes
to another one. Both are made one by one, and cost several times as much as other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message
from pocketmq.spark.errors import RowError
from pocketmq.spark.rows.encoding import DELAY_PROPERTIES, OWN_PROPERTIES, Columns
from pocketmq.spark.rows.marks import MARK_PROPERTIES

Flags = npt.NDArray[np.bool_]

ORIGIN_TOPIC = "ORIGIN_TOPIC"
ORIGIN_SIZE = "ORIGIN_SIZE"
"""Properties of a diverted row: where it should have gone, and the size of its whole value."""

DIVERTED_SIZE_MAX = 1024 * 1024
"""Bytes of a diverted value; what is longer is cut, since the side topic has limits too."""

_LEFT_OUT = frozenset({*OWN_PROPERTIES, *MARK_PROPERTIES, *DELAY_PROPERTIES})


class Delays(NamedTuple):
    """When rows want to be delivered; arrays of one length.

    Attributes:
        levels: the delay level of each row; 0 for none.
        at_ms: the time of each row, milliseconds since the epoch; 0 for none.
    """

    levels: npt.NDArray[np.int64]
    at_ms: npt.NDArray[np.int64]

    @property
    def is_set(self) -> Flags:
        """Which rows want to be delayed."""
        wanted: Flags = (self.levels != 0) | (self.at_ms != 0)
        return wanted


def delayed_messages(topics: list[str], columns: Columns, delays: Delays) -> Iterator[Message]:
    """Rows as messages that the broker holds back.

    Raises:
        RowError: a row wants what no message can.
    """
    rows = zip(topics, delays.levels.tolist(), delays.at_ms.tolist(), strict=True)
    for row, (topic, level, at_ms) in enumerate(rows):
        message = _message(topic, columns, row)
        if level < 0 or at_ms < 0:
            raise RowError(row, f"it is delayed by level {level} until {at_ms}: none is negative")
        try:
            delayed = Message(topic, delay_level=level, deliver_at_ms=at_ms)
        except UsageError as e:
            raise RowError(row, str(e)) from e
        message.properties.update(
            (name, value) for name, value in delayed.properties.items() if name in DELAY_PROPERTIES
        )
        yield message


def diverted_messages(side_topic: str, topics: list[str], columns: Columns) -> Iterator[Message]:
    """Rows whose values are too large, for the side topic."""
    for row, topic in enumerate(topics):
        message = _message(side_topic, columns, row)
        message.properties[ORIGIN_TOPIC] = topic
        message.properties[ORIGIN_SIZE] = str(len(message.body))
        message.body = message.body[:DIVERTED_SIZE_MAX]
        yield message


def _message(topic: str, columns: Columns, row: int) -> Message:
    given = columns.properties
    properties = dict(given[row].as_py() or ()) if given is not None else {}
    kept = {n: v for n, v in properties.items() if v and n not in _LEFT_OUT}
    message = Message(topic, columns.body[row].as_py(), properties=kept)
    for name, column in (
        (props.KEYS, columns.keys),
        (props.TAGS, columns.tags),
        (props.SHARDING_KEY, columns.sharding_keys),
    ):
        value: Any = None if column is None else column[row].as_py()
        if value:
            message.properties[name] = value
    return message
