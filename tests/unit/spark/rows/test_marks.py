"""Marks are the same for the same row of the same task, and for no other row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pocketmq.protocol.messages import properties as props
from pocketmq.spark.rows.marks import (
    WRITER_ID,
    WRITER_SEQUENCE,
    Sequence,
    TaskMarks,
    WriterIdentity,
    new_writer_id,
)

WRITER = WriterIdentity("nightly:7", "broker-a")


def read(marks: Any) -> list[tuple[WriterIdentity, Sequence]]:
    decoded = [props.decode(text.decode()) for text in marks.to_pylist()]
    return [
        (WriterIdentity.parse(m[WRITER_ID]), Sequence.parse(m[WRITER_SEQUENCE])) for m in decoded
    ]


def test_marks_count_the_rows_of_a_task() -> None:
    task = TaskMarks(WRITER, epoch=3, partition=17)
    rows = read(task.draw(2)) + read(task.draw(0)) + read(task.draw(300))
    assert rows == [(WRITER, Sequence(3, 17, number)) for number in range(302)]


def test_another_attempt_gives_the_same_marks() -> None:
    first, second = (TaskMarks(WRITER, 0, 4) for _ in range(2))
    assert pa.concat_arrays([first.draw(5), first.draw(5)]).equals(second.draw(10))


def test_the_broker_of_a_writer_may_be_named_anyhow() -> None:
    assert WriterIdentity.parse(str(WriterIdentity("a", "b@c"))) == WriterIdentity("a", "b@c")


def test_ids_that_are_drawn_differ() -> None:
    assert new_writer_id() != new_writer_id()
