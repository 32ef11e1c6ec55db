"""Rows of a task on their way to the brokers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pocketmq.spark.errors import RowError
from pocketmq.spark.rows.delays import Delays

Ints = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Rows to be sent, as Arrow columns of one length; a column that is not given is None.

    Attributes:
        body: binary, without nulls.
        keys, tags, sharding_keys: strings; null and empty ones set no property.
        properties: a map of strings of further properties.
        marks: binaries, the properties of `pocketmq.spark.rows.marks` as they travel.
        topics, broker_names, queue_ids: where each row says that it goes.
        delays: when rows want to be delivered; None if all of them want it at once.
        origin: the number of each row within its Spark task; None if rows are counted as here.
    """

    body: Any
    keys: Any = None
    tags: Any = None
    sharding_keys: Any = None
    properties: Any = None
    marks: Any = None
    topics: Any = None
    broker_names: Any = None
    queue_ids: Any = None
    delays: Delays | None = None
    origin: Any = None

    @property
    def size(self) -> int:
        """How many rows these are."""
        return len(self.body)

    def take(self, indices: Ints) -> Rows:
        """Picks some rows, in the given order."""
        picked = pa.array(indices)
        return Rows(*(None if column is None else column.take(picked) for column in self))

    def slice(self, start: int, size: int) -> Rows:
        """Cuts out rows that stand side by side."""
        return Rows(*(None if column is None else column.slice(start, size) for column in self))

    def error(self, row: int, reason: str) -> RowError:
        """Makes the error for a row that cannot be a message, by its number in the task."""
        return RowError(row if self.origin is None else self.origin[row].as_py(), reason)
