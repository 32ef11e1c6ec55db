"""Distributes the rows of one task: to their topics, and those that cannot go in bulk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from pocketmq.spark.options import WriteOptions
from pocketmq.spark.rows.columns import RowReader
from pocketmq.spark.rows.marks import TaskMarks
from pocketmq.spark.rows.rows import Rows
from pocketmq.spark.writing.plain_messages import delayed_messages, diverted_messages
from pocketmq.spark.writing.sending_thread import SendingThread
from pocketmq.spark.writing.topic_writing import TopicWriting


class RowDistribution:
    """Takes the rows of a task, block by block.

    Args:
        options: of the write.
        sending: where the rows go.
        first_queue: the first of the queues to which rows go in turn; it differs from task to task,
            so that not all of them begin at the same one.
        marks: draws the marks of rows; None for rows without.
    """

    def __init__(
        self,
        options: WriteOptions,
        sending: SendingThread,
        first_queue: int,
        marks: TaskMarks | None,
    ) -> None:
        self._options, self._sending, self._marks = options, sending, marks
        self._first_queue = first_queue
        self._reader = RowReader(None if options.large_row_topic else options.max_message_size)
        self._writings: dict[str, TopicWriting] = {}

    def write(self, block: Any) -> None:
        """Submits the rows of a block; waits while too many bytes are under way.

        Raises:
            RowError: a row cannot be a message.
            MissingTopicError: a row names a topic that does not exist and is not to be created.
            OperatingError: earlier rows could not be sent.
        """
        if block.num_rows == 0:
            return
        rows = self._reader.rows(block)
        if self._marks is not None:
            rows = rows._replace(marks=self._marks.draw(rows.size))
        for topic, of_topic in self._by_topic(rows):
            self._write_topic(topic, of_topic)

    def _by_topic(self, rows: Rows) -> list[tuple[str, Rows]]:
        if self._options.topic:
            return [(self._options.topic, rows._replace(topics=None))]
        if rows.topics.null_count:
            row = int(np.argmax(np.array(rows.topics.is_null())))
            raise rows.error(row, "its topic is null, and there is no option 'topic'")
        coded, rows = rows.topics.dictionary_encode(), rows._replace(topics=None)
        topics = coded.dictionary.to_pylist()
        if len(topics) == 1:
            return [(topics[0], rows)]
        codes = np.array(coded.indices)
        return [
            (topic, rows.take(np.flatnonzero(codes == code))) for code, topic in enumerate(topics)
        ]

    def _write_topic(self, topic: str, rows: Rows) -> None:
        writing = self._writings.get(topic)
        if writing is None:
            writing = TopicWriting(self._options, self._sending, topic, self._first_queue)
            self._writings[topic] = writing
        if self._options.large_row_topic:
            rows = self._without_large(topic, rows)
        if rows.delays is not None:
            rows = self._without_delayed(writing, topic, rows, rows.delays.is_set)
        writing.write(rows)

    def _without_large(self, topic: str, rows: Rows) -> Rows:
        """Sends the rows that are too large to the side topic; returns the others."""
        is_large = np.array(pc.binary_length(rows.body)) > self._options.max_message_size
        if not is_large.any():
            return rows
        large = rows.take(np.flatnonzero(is_large))
        for message in diverted_messages(self._options.large_row_topic, topic, large):
            self._sending.submit_message(message, None)
        return rows.take(np.flatnonzero(~is_large))

    def _without_delayed(
        self, writing: TopicWriting, topic: str, rows: Rows, is_delayed: Any
    ) -> Rows:
        """Sends the rows that are delayed as messages of their own; returns the others."""
        delayed = rows.take(np.flatnonzero(is_delayed))
        queues = writing.queues_of(delayed)
        for index, message in enumerate(list(delayed_messages(topic, delayed))):
            self._sending.submit_message(message, None if queues is None else queues[index])
        return rows.take(np.flatnonzero(~is_delayed))._replace(delays=None)
