"""The errors of Spark jobs: leaves of the tree in `pocketmq.protocol.errors`.

::

    UsageError
    ├── OptionError       an option of the data source that does not exist or does not fit
    ├── SchemaError       the rows to be written lack a column, or one has the wrong type
    ├── MissingTopicError a topic does not exist, and was not to be created
    ├── RowError          one row cannot become a message
    └── RequirementError  PySpark, PyArrow or Java is missing or too old
    OperatingError
    ├── DataLossError     messages that were to be read are not there any more
    │   ├── ClosedQueueError  a stream's queue, or its topic, is not there any more
    │   └── NewTopicError     a stream's topic was deleted and made again
    ├── UnknownCommitError it cannot be known whether rows of a marked write count
    └── JobError          a Spark job failed; holds the reason that its task gave
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pocketmq.protocol.errors import ConfigError, OperatingError, UsageError


class OptionError(ConfigError):
    """An option of the data source that does not exist or does not fit."""


class SchemaError(UsageError):
    """The rows to be written lack a column, or a column has the wrong type."""


class MissingTopicError(UsageError):
    """A topic does not exist, and was not to be created."""

    def __init__(self, topic: str, asked: str, remedy: str) -> None:
        super().__init__(topic, asked, remedy)
        self.topic, self.asked, self.remedy = topic, asked, remedy

    def __str__(self) -> str:
        return f"topic {self.topic} does not exist (asked: {self.asked}): {self.remedy}"


class RowError(UsageError):
    """One row cannot become a message; it is counted from 0 within its Spark task."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row, self.reason = row, reason

    def __str__(self) -> str:
        return f"row {self.row} of this task cannot be sent: {self.reason}"


class RequirementError(UsageError):
    """PySpark, PyArrow or Java is missing or too old."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


class DataLossError(OperatingError):
    """Messages that were to be read are not there any more.

    Attributes:
        queue: as ``topic@broker:queue``.
        wanted_start, wanted_end: the offsets asked for, the end exclusive.
        min_offset, max_offset: what the queue holds.
    """

    def __init__(
        self, queue: str, wanted_start: int, wanted_end: int, min_offset: int, max_offset: int
    ) -> None:
        super().__init__(queue, wanted_start, wanted_end, min_offset, max_offset)
        self.queue = queue
        self.wanted_start, self.wanted_end = wanted_start, wanted_end
        self.min_offset, self.max_offset = min_offset, max_offset

    def __str__(self) -> str:
        reason = "messages were deleted (by retention, or as damaged ones by a repair)"
        if self.wanted_start >= self.min_offset:
            reason = f"the queue ends at {self.max_offset}, nothing is stored behind that"
        return (
            f"{self.queue}: offsets {self.wanted_start} to {self.wanted_end} were to be read, "
            f"the broker holds {self.min_offset} to {self.max_offset}: {reason}; set "
            f"failOnDataLoss=false to read what is there"
        )


class NewTopicError(DataLossError):
    """The topic that a stream was reading was deleted, and made again with the same name."""

    def __str__(self) -> str:
        return (
            f"{self.queue}: offsets {self.wanted_start} to {self.wanted_end} were to be read, "
            f"the broker holds {self.min_offset} to {self.max_offset}: the topic was deleted and "
            f"made again after the stream had read to {self.wanted_start}; begin anew with another "
            f"checkpoint, or set failOnDataLoss=false to read the new topic from its beginning"
        )


class ClosedQueueError(DataLossError):
    """A queue that a stream was reading cannot be read any more."""

    def __str__(self) -> str:
        return (
            f"{self.queue} cannot be read any more: its topic was deleted or has fewer read queues "
            f"now. The stream stands at offset {self.wanted_start}, the broker holds "
            f"{self.min_offset} to {self.max_offset} of it; set failOnDataLoss=false to go on "
            f"without it"
        )


class UnknownCommitError(OperatingError):
    """It cannot be known whether a row of a marked write counts.

    Attributes:
        queue: as ``topic@broker:queue``.
        offset: of the first such row.
        writer: as the row names it, ``writer@broker``.
        is_there: whether the broker that holds the writer's commits could be asked.
    """

    def __init__(self, queue: str, offset: int, writer: str, *, is_there: bool) -> None:
        super().__init__(queue, offset, writer, is_there)
        self.queue, self.offset, self.writer, self.is_there = queue, offset, writer, is_there

    def __str__(self) -> str:
        reason = "they may be deleted by now (retention)"
        if not self.is_there:
            reason = "its commit topic is not there (is the broker down?)"
        return (
            f"{self.queue}: offset {self.offset} was written by {self.writer}, and whether it "
            f"counts is said by commits on the broker named there: {reason}; set "
            f"failOnDataLoss=false to take such rows, with possible repeats, or dropRepeats=false"
        )


class JobError(OperatingError):
    """A Spark job failed.

    Attributes:
        job: what it was to do.
        reason: what the failed task said, mostly the broker's own words.
    """

    def __init__(self, job: str, reason: str) -> None:
        super().__init__(job, reason)
        self.job, self.reason = job, reason

    def __str__(self) -> str:
        return f"{self.job} failed: {self.reason}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Names the known name that was probably meant, or lists all."""
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    return f"known are: {', '.join(sorted(by_lower.values()))}"
