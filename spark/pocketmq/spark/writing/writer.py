"""The batch writer: rows of a DataFrame become messages of a topic.

The processes that plan and commit a write import this module, too. What only a task needs, PyArrow
and numpy among it, is imported by the functions of the task.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import OptionError, SchemaError
from pocketmq.spark.garbage import spare_modules
from pocketmq.spark.options import MEBIBYTE, WriteOptions
from pocketmq.spark.plain_errors import plain_errors
from pocketmq.spark.rows.written_schema import BROKER_NAME, QUEUE_ID, TOPIC, check_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pocketmq.spark.marked.commits import OffsetRanges
    from pocketmq.spark.rows.marks import WriterIdentity

BLOCK_ROWS = 65_536
BLOCK_BYTES = 8 * MEBIBYTE
"""Rows are collected to one of these before they are spread over the queues: many rows for each
queue make few and large requests."""


class WrittenRows(WriterCommitMessage):
    """What one task has written.

    Attributes:
        rows_by_queue: rows by ``broker:queue``, of another topic than that of the option by
            ``topic@broker:queue``.
        unconfirmed_rows: of these, rows that are stored, but not yet flushed or replicated as the
            broker is configured.
        written: the offsets of the rows of a marked write.
    """

    def __init__(
        self, rows_by_queue: dict[str, int], unconfirmed_rows: int, written: OffsetRanges
    ) -> None:
        self.rows_by_queue, self.unconfirmed_rows = rows_by_queue, unconfirmed_rows
        self.written = written


class MessageWriter(DataSourceArrowWriter):
    """Writes rows as one batch: made on the driver, copied to each task.

    Args:
        options: of the write.
        schema: of the rows.
        queues: of the topic; all tasks count them alike.
        writer: whose marks the rows get; None for rows without marks.
    """

    def __init__(
        self,
        options: WriteOptions,
        schema: StructType,
        queues: Sequence[MessageQueue],
        writer: WriterIdentity | None,
    ) -> None:
        check_rows(options, schema, queues)
        self._options, self._queues, self._writer = options, tuple(queues), writer

    @plain_errors()
    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        """Writes the rows of one partition.

        Raises:
            RowError: a row cannot be a message.
            OperatingError: the brokers do not take the rows.
        """
        return write_rows(self._options, self._queues, self._writer, 0, iterator)

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the rows of a marked write, and writes the report if one is wanted.

        Raises:
            OperatingError: the rows are in the topic, but the commit is not confirmed.
        """
        if self._writer is not None:
            commit_rows(self._options, self._writer, 0, messages)
        report(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leaves what was stored: the job fails with the reason of its task."""


def check_rows(options: WriteOptions, schema: StructType, queues: Sequence[MessageQueue]) -> None:
    """Checks that rows of a schema can be written.

    Raises:
        SchemaError: their columns do not fit.
        OptionError: neither the options nor the rows name a topic.
    """
    check_schema(schema)
    names = schema.names
    if not options.topic and TOPIC not in names:
        raise OptionError(
            "option 'topic' is missing: .option('topic', 'Orders'), or give each row its topic "
            "in a column 'topic'"
        )
    if options.routing == "key" and not {"key", "keys"} & set(names):
        raise SchemaError("option routing=key needs the column 'keys'")
    brokers = {q.broker_name for q in queues}
    if queues and QUEUE_ID in names and BROKER_NAME not in names and len(brokers) > 1:
        raise SchemaError(
            f"topic {options.topic} lies on {len(brokers)} brokers, each of which has a queue "
            f"0: give the column 'brokerName' beside 'queueId'"
        )


def report(
    options: WriteOptions,
    messages: Sequence[WriterCommitMessage | None],
    *,
    batch_id: int | None = None,
) -> None:
    """Writes the report of a write, or of a stream's last batch, if one is wanted."""
    if options.commit_file is None:
        return
    rows: Counter[str] = Counter()
    unconfirmed_rows = 0
    for message in messages:
        if isinstance(message, WrittenRows):
            rows.update(message.rows_by_queue)
            unconfirmed_rows += message.unconfirmed_rows
    found: dict[str, Any] = {"rowsByQueue": dict(sorted(rows.items()))}
    found["unconfirmedRows"] = unconfirmed_rows
    if batch_id is not None:
        found["batchId"] = batch_id
    unfinished = f"{options.commit_file}.part"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(unfinished, options.commit_file)


def write_rows(
    options: WriteOptions,
    queues: Sequence[MessageQueue],
    writer: WriterIdentity | None,
    epoch: int,
    batches: Iterator[Any],
) -> WrittenRows:
    """Writes the rows of one Spark task.

    Args:
        options: of the write.
        queues: of the topic; all tasks count them alike.
        writer: whose marks the rows get; None for rows without marks.
        epoch: the micro-batch of a stream; 0 for a batch write.
        batches: the rows, as record batches.

    Raises:
        RowError: a row cannot be a message.
        OperatingError: the brokers do not take the rows.
    """
    from pocketmq.spark.rows.marks import TaskMarks
    from pocketmq.spark.writing.pace import Pace
    from pocketmq.spark.writing.row_distribution import RowDistribution
    from pocketmq.spark.writing.sending_thread import SendingThread

    spare_modules()
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    marks = None if writer is None else TaskMarks(writer, epoch, partition)
    with SendingThread(options, queues) as sending:
        rows_written = RowDistribution(options, sending, partition, marks)
        pace = Pace(options.rows_per_second, sending.instance.clock)
        for block in blocks(batches):
            for piece in pace.pieces(block):
                rows_written.write(piece)
        sent = sending.finish()
    rows = {_queue_name(options, q): n for q, n in sent.rows_by_queue.items()}
    return WrittenRows(rows, sent.unconfirmed_rows, sent.written)


def _queue_name(options: WriteOptions, queue: MessageQueue) -> str:
    is_of_option = queue.topic == options.topic
    return f"{queue.broker_name}:{queue.queue_id}" if is_of_option else str(queue)


def commit_rows(
    options: WriteOptions,
    writer: WriterIdentity,
    epoch: int,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    """Commits the rows that the tasks of a marked write have written; see `marked.commits`.

    Raises:
        OperatingError: the broker did not confirm it.
    """
    from pocketmq.runtime.process import run
    from pocketmq.spark.marked.commits import merged

    written = merged(m.written for m in messages if isinstance(m, WrittenRows))
    run(_commit(options, writer, epoch, written))


async def _commit(
    options: WriteOptions, writer: WriterIdentity, epoch: int, written: OffsetRanges
) -> None:
    from pocketmq.spark.marked.commits import publish

    async with options.client() as instance:
        await publish(instance, options.commit_topic, writer, epoch, written)


def blocks(batches: Iterator[Any]) -> Iterator[Any]:
    """Collects record batches, or cuts them, to blocks of about `BLOCK_BYTES`."""
    from pocketmq.spark.rows.routing import concatenated

    held: list[Any] = []
    rows = size = 0
    for batch in batches:
        for part in _cut(batch):
            if held and (size + part.nbytes > BLOCK_BYTES or rows + part.num_rows > BLOCK_ROWS):
                yield concatenated(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows += part.num_rows
            size += part.nbytes
    if held:
        yield concatenated(held)


def _cut(batch: Any) -> Iterator[Any]:
    rows = batch.num_rows
    if rows > 1 and (batch.nbytes > BLOCK_BYTES or rows > BLOCK_ROWS):
        yield from _cut(batch.slice(0, rows // 2))
        yield from _cut(batch.slice(rows // 2))
    elif rows:
        yield batch
