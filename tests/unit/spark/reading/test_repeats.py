"""Rows count by where they lie; what cannot be known is an error, or counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import UnknownCommitError
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.reading.repeats import RepeatFilter

QUEUE = MessageQueue("Orders", "broker-a", 0)


def counts(
    writers: list[str | None],
    committed: dict[str, list[tuple[int, int]]],
    *,
    known_since: int = 0,
    fail_on_data_loss: bool = True,
) -> list[bool]:
    """Of rows at the offsets 0, 1, ..., stored at 1000, 1001, ..."""
    by_writer = {w: Intervals(pairs) for w, pairs in committed.items()}
    known = {"b": known_since}
    found = RepeatFilter(QUEUE, by_writer, known, fail_on_data_loss).counts(
        pa.array(writers, pa.string()), np.arange(len(writers)), 1000 + np.arange(len(writers))
    )
    return [True] * len(writers) if found is None else found.tolist()


def test_rows_without_marks_count() -> None:
    assert counts([None, None], {}) == [True, True]


def test_rows_count_where_their_own_writer_committed() -> None:
    writers = ["w@b", "w@b", None, "v@b", "v@b"]
    committed = {"w": [(0, 1), (3, 4)], "v": [(4, 9)]}
    assert counts(writers, committed) == [True, False, True, False, True]


def test_rows_of_a_writer_that_never_committed_do_not_count() -> None:
    assert counts(["w@b", None], {}) == [False, True]


def test_what_cannot_be_known_is_an_error_or_counts() -> None:
    with pytest.raises(UnknownCommitError, match=r"offset 0 was written by w@b.*retention"):
        counts(["w@b", "w@b"], {}, known_since=1001)
    assert counts(["w@b", "w@b"], {}, known_since=1001, fail_on_data_loss=False) == [True, False]
    # What is known to count is no question.
    assert counts(["w@b", "w@b"], {"w": [(0, 1)]}, known_since=1001) == [True, False]


def test_a_broker_that_is_not_there_knows_nothing() -> None:
    with pytest.raises(UnknownCommitError, match="is the broker down"):
        counts(["w@c"], {})
