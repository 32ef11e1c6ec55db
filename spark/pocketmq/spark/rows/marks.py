"""Marks of rows: two properties that a marked write gives each of its messages.

``WRITER_ID`` is ``writer@broker``: the option ``writerId`` of the write, and the broker that holds
the writer's commits (see `pocketmq.spark.marked.commits`). ``WRITER_SEQ`` is
``epoch-partition-number``: the micro-batch (0 for a batch write), the Spark partition and the row's
number within it, both in hexadecimal. A task that Spark runs again marks the same row with the
same two texts as long as the order of its rows is the same, which is so for files and after a sort,
but not after a mere shuffle. Therefore the reader of this package does not go by the number: it
goes by the commits.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pocketmq.protocol.messages import properties as props
from pocketmq.spark.rows.hex_digits import LOWER, put_digits

WRITER_ID = "WRITER_ID"
WRITER_SEQUENCE = "WRITER_SEQ"
MARK_PROPERTIES = (WRITER_ID, WRITER_SEQUENCE)
"""Left out of a row's own properties, so that a copy is not taken for what its origin's writer
wrote."""

NUMBER_DIGITS = 10
"""Hexadecimal digits of a row's number: a partition has less than 2**40 rows."""


class WriterIdentity(NamedTuple):
    """The identity of a writer of marked rows.

    Attributes:
        writer_id: what stays the same when the job is run again.
        broker_name: holds its commits.
    """

    writer_id: str
    broker_name: str

    def __str__(self) -> str:
        return f"{self.writer_id}@{self.broker_name}"

    @classmethod
    def parse(cls, text: str) -> WriterIdentity:
        """Reads the property ``WRITER_ID``."""
        writer_id, _, broker_name = text.partition("@")
        return cls(writer_id, broker_name)


class TaskMarks:
    """Gives the rows of one task their marks, in the order in which the task gets them.

    Args:
        writer: of the job or the stream.
        epoch: the micro-batch of a stream; 0 for a batch write.
        partition: the task's Spark partition, the same in each of its attempts.
    """

    def __init__(self, writer: WriterIdentity, epoch: int, partition: int) -> None:
        start = (
            f"{WRITER_ID}{props.NAME_END}{writer}{props.VALUE_END}"
            f"{WRITER_SEQUENCE}{props.NAME_END}{epoch}-{partition:x}-"
        )
        self._start = np.frombuffer(start.encode(), np.uint8)
        self._next = 0

    def draw(self, rows: int) -> Any:
        """Draws the two properties of the next rows as they travel: an Arrow array of binaries."""
        at = len(self._start)
        width = at + NUMBER_DIGITS + len(props.VALUE_END)
        texts = np.empty((rows, width), np.uint8)
        texts[:, :at] = self._start
        numbers = np.arange(self._next, self._next + rows, dtype=np.int64)
        self._next += rows
        put_digits(numbers, texts[:, at:-1], LOWER)
        texts[:, -1] = ord(props.VALUE_END)
        ends = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
        return pa.Array.from_buffers(
            pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(texts)]
        )


class Sequence(NamedTuple):
    """The property ``WRITER_SEQ``, taken apart."""

    epoch: int
    partition: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Sequence:
        """Reads the property ``WRITER_SEQ``.

        Raises:
            ValueError: it is none of this package.
        """
        epoch, partition, number = text.split("-")
        return cls(int(epoch), int(partition, 16), int(number, 16))


def new_writer_id() -> str:
    """Makes an id for a job that was given none: its tasks may be repeated, but not the job."""
    return secrets.token_hex(8)
