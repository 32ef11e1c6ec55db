"""Makes a read smaller by the conditions of a query: fewer queues, shorter ranges, fewer tags.

Spark hands over the conditions that its query joins by AND, before a read is planned, and evaluates
again those that are given back. Conditions on topic, broker, queue and offset are met exactly by
what is read, so they are not given back. Those on tags (brokers compare hashes) and on the store
time (a broker's clock may be set back) only spare pulls, and are.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql import datasource as ds

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.filtering import Expression, of_tags
from pocketmq.spark.reading.offsets import Range

CLOCK_STEP_MS_MAX = 60_000
"""So much earlier may be the store time of a message than that of the one before it: a clock that
was set. The range of times that is read is longer by this at both ends."""


class Pushed:
    """Collects what the conditions of a query leave to be read.

    Attributes:
        values: by column (topic, brokerName, queueId, tags), the values that are left; a column
            without an entry may have any.
        least, following: the offsets to be read, the latter exclusive.
        after_ms, before_ms: the store times to be read, both inclusive; None without a bound.
    """

    def __init__(self) -> None:
        self.values: dict[str, frozenset[Any]] = {}
        self.least, self.following = 0, 2**63 - 1
        self.after_ms: int | None = None
        self.before_ms: int | None = None

    def take(self, conditions: Iterable[Any]) -> list[Any]:
        """Takes the conditions that it can; returns those that Spark has to evaluate."""
        return [c for c in conditions if not self._take(c)]

    def _take(self, condition: Any) -> bool:
        """Takes a condition; returns whether all that will be read meets it."""
        path = getattr(condition, "attribute", None)
        if path is None or len(path) != 1:
            return False
        column = path[0]
        if isinstance(condition, ds.IsNotNull):
            return column in _NEVER_NULL
        if column in _VALUE_COLUMNS:
            return self._take_values(column, condition)
        if column == "queueOffset":
            return self._take_offsets(condition)
        if column == "storeTimestamp":
            self._take_times(condition)
        return False

    def _take_values(self, column: str, condition: Any) -> bool:
        if isinstance(condition, ds.In):
            values = frozenset(condition.value)
        elif isinstance(condition, ds.EqualTo) or (
            isinstance(condition, ds.EqualNullSafe) and condition.value is not None
        ):
            values = frozenset([condition.value])
        else:
            return False
        self.values[column] = values & self.values.get(column, values)
        return column != "tags"

    def _take_offsets(self, condition: Any) -> bool:
        if isinstance(condition, ds.In):
            offsets = [o for o in condition.value if o is not None]
            self.least = max(self.least, min(offsets, default=self.following))
            self.following = min(self.following, max(offsets, default=self.least - 1) + 1)
            return False
        value = getattr(condition, "value", None)
        if not isinstance(value, int):
            return False
        if isinstance(condition, (ds.EqualTo, ds.EqualNullSafe)):
            self.least, self.following = max(self.least, value), min(self.following, value + 1)
        elif isinstance(condition, ds.GreaterThan):
            self.least = max(self.least, value + 1)
        elif isinstance(condition, ds.GreaterThanOrEqual):
            self.least = max(self.least, value)
        elif isinstance(condition, ds.LessThan):
            self.following = min(self.following, value)
        elif isinstance(condition, ds.LessThanOrEqual):
            self.following = min(self.following, value + 1)
        else:
            return False
        return True

    def _take_times(self, condition: Any) -> None:
        value = getattr(condition, "value", None)
        if not isinstance(value, datetime) or value.tzinfo is None:
            return
        at_ms = int(value.timestamp() * 1000)
        is_equal = isinstance(condition, (ds.EqualTo, ds.EqualNullSafe))
        if is_equal or isinstance(condition, (ds.GreaterThan, ds.GreaterThanOrEqual)):
            self.after_ms = max(at_ms, self.after_ms if self.after_ms is not None else at_ms)
        if is_equal or isinstance(condition, (ds.LessThan, ds.LessThanOrEqual)):
            self.before_ms = min(at_ms, self.before_ms if self.before_ms is not None else at_ms)

    def takes_queue(self, queue: MessageQueue) -> bool:
        """Whether messages of a queue are wanted at all."""
        columns = zip(("topic", "brokerName", "queueId"), queue, strict=True)
        return all(value in self.values.get(column, (value,)) for column, value in columns)

    @property
    def times_ms(self) -> tuple[int | None, int | None]:
        """The store times between which messages are read, to be looked up as offsets."""
        after, before = self.after_ms, self.before_ms
        return (
            None if after is None else max(0, after - CLOCK_STEP_MS_MAX),
            None if before is None else max(0, before + CLOCK_STEP_MS_MAX + 1),
        )

    def cut(self, wanted: Range) -> Range:
        """Returns a range without the offsets that are not wanted; perhaps an empty one."""
        start = max(wanted.start, self.least)
        return Range(wanted.queue, start, max(start, min(wanted.end, self.following)))

    def expression(self, given: Expression) -> Expression:
        """Returns the expression for pulls: that of the options, or one for the tags."""
        tags = self.values.get("tags")
        if tags is None or not given.takes_all:
            return given
        return of_tags(tags) or given


_VALUE_COLUMNS = ("topic", "brokerName", "queueId", "tags")
_NEVER_NULL = frozenset(
    {
        "topic",
        "brokerName",
        "queueId",
        "queueOffset",
        "msgId",
        "value",
        "bornTimestamp",
        "storeTimestamp",
        "reconsumeTimes",
    }
)
