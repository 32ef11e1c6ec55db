"""Rows of one task: which of them go to which topic, and which not by the bulk path."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.spark.errors import RowError
from pocketmq.spark.options import WriteOptions
from pocketmq.spark.rows.columns import TOPIC, RowReader, delays_of
from pocketmq.spark.rows.encoding import Columns
from pocketmq.spark.rows.marks import TaskMarks
from pocketmq.spark.rows.plain_messages import Delays, delayed_messages, diverted_messages
from pocketmq.spark.writing.sending_thread import SendingThread
from pocketmq.spark.writing.topic_writing import TopicWriting

Ints = npt.NDArray[np.int64]


class RowDistribution:
    """Takes the rows of a task, block by block.

    Args:
        options: of the write.
        sending: where the rows go.
        turn: where rows in turn begin, so that tasks do not all begin at the same queue.
        marks: what rows are marked with, if they are.
    """

    def __init__(
        self, options: WriteOptions, sending: SendingThread, turn: int, marks: TaskMarks | None
    ) -> None:
        self._options, self._sending, self._turn, self._marks = options, sending, turn, marks
        size_max = None if options.large_row_topic else options.max_message_size
        self._rows = RowReader(size_max)
        self._writings: dict[str, TopicWriting] = {}

    def write(self, block: Any) -> None:
        """Submits the rows of a block; waits while too much is under way.

        Raises:
            RowError: a row cannot be a message.
            MissingTopicError: a row names a topic that does not exist and is not to be created.
            OperatingError: earlier rows could not be sent.
        """
        columns = self._rows.columns(block)
        if self._marks is not None:
            columns = columns._replace(marks=self._marks.draw(block.num_rows))
        for topic, rows in self._by_topic(block):
            try:
                if rows is None:
                    self._write_topic(topic, block, columns)
                else:
                    part = block.take(pa.array(rows))
                    self._write_topic(topic, part, columns.take(rows))
            except RowError as e:
                row = e.row if rows is None else int(rows[e.row])
                error = RowError(row, e.reason)
                raise self._rows.placed(error, block.num_rows) from None

    def _by_topic(self, block: Any) -> list[tuple[str, Ints | None]]:
        """The topics of a block, and which rows are theirs; None for all."""
        if self._options.topic or block.num_rows == 0:
            return [(self._options.topic, None)] if block.num_rows else []
        names = block[TOPIC]
        if names.null_count:
            row = int(np.argmax(np.array(names.is_null())))
            error = RowError(row, "its topic is null, and there is no option 'topic'")
            raise self._rows.placed(error, block.num_rows)
        coded = names.cast(pa.string()).dictionary_encode()
        topics = coded.dictionary.to_pylist()
        if len(topics) == 1:
            return [(topics[0], None)]
        codes = np.array(coded.indices)
        return [(topic, np.flatnonzero(codes == code)) for code, topic in enumerate(topics)]

    def _write_topic(self, topic: str, block: Any, columns: Columns) -> None:
        writing = self._writings.get(topic)
        if writing is None:
            writing = TopicWriting(self._options, self._sending, topic, self._turn)
            self._writings[topic] = writing
        is_plain = np.zeros(block.num_rows, bool)
        if self._options.large_row_topic:
            is_plain |= self._divert(topic, columns)
        delays = delays_of(block)
        if delays is not None:
            is_delayed = delays.is_set & ~is_plain
            self._delay(writing, topic, block, columns, delays, np.flatnonzero(is_delayed))
            is_plain |= is_delayed
        if not is_plain.any():
            writing.write(block, columns)
            return
        rows = np.flatnonzero(~is_plain)
        try:
            writing.write(block.take(pa.array(rows)), columns.take(rows))
        except RowError as e:
            raise RowError(int(rows[e.row]), e.reason) from None

    def _divert(self, topic: str, columns: Columns) -> npt.NDArray[np.bool_]:
        sizes = np.array(pc.binary_length(columns.body))
        is_large: npt.NDArray[np.bool_] = sizes > self._options.max_message_size
        rows = np.flatnonzero(is_large)
        topics = [topic] * len(rows)
        side_topic = self._options.large_row_topic
        for message in diverted_messages(side_topic, topics, columns.take(rows)):
            self._sending.submit_message(message, None)
        return is_large

    def _delay(
        self,
        writing: TopicWriting,
        topic: str,
        block: Any,
        columns: Columns,
        delays: Delays,
        rows: Ints,
    ) -> None:
        taken = columns.take(rows)
        queues = writing.queues_of(block.take(pa.array(rows)), taken)
        wanted = Delays(delays.levels[rows], delays.at_ms[rows])
        try:
            messages = list(delayed_messages([topic] * len(rows), taken, wanted))
        except RowError as e:
            raise RowError(int(rows[e.row]), e.reason) from None
        for index, message in enumerate(messages):
            self._sending.submit_message(message, None if queues is None else queues[index])
