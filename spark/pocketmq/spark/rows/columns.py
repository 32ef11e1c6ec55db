"""How the columns that a write takes become `Rows`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.protocol.messages.message import DELAY_LEVEL_MAX, TAGS_SEPARATOR
from pocketmq.spark.rows.delays import Delays
from pocketmq.spark.rows.rows import Rows
from pocketmq.spark.rows.written_schema import (
    ALIASES,
    BROKER_NAME,
    DELAY_LEVEL,
    DELIVER_AT,
    KEYS,
    PROPERTIES,
    QUEUE_ID,
    SHARDING_KEY,
    TAGS,
    TOPIC,
    VALUE,
)
from pocketmq.spark.rows.written_schema import COLUMN_TYPES as COLUMN_TYPES
from pocketmq.spark.rows.written_schema import check_schema as check_schema


class RowReader:
    """Makes the record batches of one task `Rows`, and counts these over all batches.

    Args:
        value_size_max: bytes of one message's body; None for no bound.
    """

    def __init__(self, value_size_max: int | None) -> None:
        self._value_size_max = value_size_max
        self._rows_before = 0

    def rows(self, batch: Any) -> Rows:
        """Takes the columns of messages out of the task's next batch.

        Raises:
            RowError: a value is null, empty or too large, a tag holds ``||``, or a delay is none.
        """
        by_name = {
            ALIASES.get(name, name): column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        first, self._rows_before = self._rows_before, self._rows_before + batch.num_rows
        rows = Rows(
            _plain(by_name[VALUE], pa.binary()),
            keys=_text(by_name.get(KEYS)),
            tags=_text(by_name.get(TAGS)),
            sharding_keys=_text(by_name.get(SHARDING_KEY)),
            properties=by_name.get(PROPERTIES),
            topics=_text(by_name.get(TOPIC)),
            broker_names=_text(by_name.get(BROKER_NAME)),
            queue_ids=by_name.get(QUEUE_ID),
            delays=_delays(by_name.get(DELAY_LEVEL), by_name.get(DELIVER_AT), batch.num_rows),
            origin=pa.array(np.arange(first, self._rows_before)),
        )
        self._check_bodies(rows)
        _check_tags(rows)
        if rows.delays is not None:
            _check_delays(rows, rows.delays)
        return rows

    def _check_bodies(self, rows: Rows) -> None:
        if rows.body.null_count:
            raise rows.error(
                int(np.argmax(np.array(rows.body.is_null()))),
                "its value is null: filter such rows out, or give them a value with coalesce",
            )
        sizes = pc.binary_length(rows.body)
        least, size = (pc.min_max(sizes)[end].as_py() for end in ("min", "max"))
        if least == 0:
            raise rows.error(
                int(np.argmin(np.array(sizes))),
                "its value is empty, which brokers refuse: filter such rows out, or give them at "
                "least one byte",
            )
        if self._value_size_max is not None and size > self._value_size_max:
            raise rows.error(
                int(np.argmax(np.array(sizes))),
                f"its value has {size} bytes, the limit is {self._value_size_max}: send it in "
                f"parts, raise maxMessageSize here and on the brokers, or name a largeRowTopic",
            )


def _check_tags(rows: Rows) -> None:
    """Raises if a tag holds ``||``; looks in the whole buffer first, which hardly ever has a |."""
    text = None if rows.tags is None else rows.tags.buffers()[2]
    if text is None or not (np.frombuffer(text, np.uint8) == ord(TAGS_SEPARATOR[0])).any():
        return
    has_separator = pc.match_substring(rows.tags, TAGS_SEPARATOR)
    if pc.any(has_separator).as_py():
        row = pc.index(has_separator, True).as_py()
        raise rows.error(
            row,
            f"its column tags is {rows.tags[row].as_py()!r}: a message has one tag, and no "
            f"consumer could subscribe to one with {TAGS_SEPARATOR}, which separates the tags of a "
            f"subscription; replace it",
        )


def _check_delays(rows: Rows, delays: Delays) -> None:
    levels, times = delays
    is_wrong = (
        (levels < 0) | (levels > DELAY_LEVEL_MAX) | (times < 0) | ((levels != 0) & (times != 0))
    )
    if not is_wrong.any():
        return
    row = int(np.argmax(is_wrong))
    level, at_ms = int(levels[row]), int(times[row])
    if level and at_ms:
        reason = (
            f"its columns delayLevel ({level}) and deliverAt ({at_ms} ms) both have a value: give "
            f"one of them, and null in the other"
        )
    elif level:
        reason = (
            f"its column delayLevel is {level}: it must be 0 (at once) to {DELAY_LEVEL_MAX}; for "
            f"another delay give the time in the column deliverAt"
        )
    else:
        reason = f"its column deliverAt is {at_ms} ms: a time before 1970 cannot be given"
    raise rows.error(row, reason)


def _delays(levels: Any, deliver_at: Any, count: int) -> Delays | None:
    """The delays of rows by their two columns; None if no row is delayed."""
    if deliver_at is not None and pa.types.is_timestamp(deliver_at.type):
        deliver_at = deliver_at.cast(pa.timestamp("ms", deliver_at.type.tz), safe=False)
    if levels is None and deliver_at is None:
        return None
    delays = Delays(_numbers(levels, count), _numbers(deliver_at, count))
    return delays if delays.is_set.any() else None


def _numbers(column: Any, count: int) -> npt.NDArray[np.int64]:
    if column is None:
        return np.zeros(count, np.int64)
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _text(column: Any) -> Any:
    return None if column is None else _plain(column, pa.string())


def _plain(column: Any, kind: Any) -> Any:
    """The column with 32-bit offsets, whichever Arrow type Spark chose."""
    return column if column.type == kind else column.cast(kind)
