"""The batch writer: rows of a DataFrame become messages of a topic."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pocketmq.client.identity import local_address
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.hosts import encode_host
from pocketmq.protocol.message import MessageQueue
from pocketmq.spark.columns import BROKER_NAME, QUEUE_ID, SHARDING_KEY, RowReader, check_schema
from pocketmq.spark.commits import Places, merged, publish
from pocketmq.spark.encoding import (
    Columns,
    Encoded,
    UniqueKeyBlocks,
    chunk_bounds,
    encode_entries,
    encode_records,
)
from pocketmq.spark.errors import RowError, SchemaError
from pocketmq.spark.marks import TaskMarks, Writer
from pocketmq.spark.options import MEBIBYTE, WriteOptions
from pocketmq.spark.routing import Routed, by_hash, by_queue, concatenated, in_turn
from pocketmq.spark.sending import Chunk
from pocketmq.spark.sending_thread import SendingThread
from pocketmq.transport.runtime import run

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BLOCK_ROWS = 65_536
BLOCK_BYTES = 8 * MEBIBYTE
"""Rows are collected to one of these before they are spread over the queues: many rows for each
queue make few and large requests."""

PLAIN_BATCH_BYTES_MAX = MEBIBYTE
"""Of a request to a broker that is not PocketMQ: its limit of 4 MiB is for the stored form, which
is larger, and is often set lower."""


class WrittenRows(WriterCommitMessage):
    """What one task has written.

    Attributes:
        rows_by_queue: rows by ``broker:queue``.
        unconfirmed_rows: of these, rows that are stored, but not yet flushed or replicated as the
            broker is configured.
        places: where the rows of a marked write lie.
    """

    def __init__(
        self, rows_by_queue: dict[str, int], unconfirmed_rows: int, places: Places
    ) -> None:
        self.rows_by_queue, self.unconfirmed_rows = rows_by_queue, unconfirmed_rows
        self.places = places


class MessageWriter(DataSourceArrowWriter):
    """Made on the driver, copied to each task.

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
        writer: Writer | None,
    ) -> None:
        check_schema(schema)
        self._options, self._queues, self._writer = options, tuple(queues), writer
        names = schema.names
        brokers = {q.broker_name for q in queues}
        if QUEUE_ID in names and BROKER_NAME not in names and len(brokers) > 1:
            raise SchemaError(
                f"topic {options.topic} lies on {len(brokers)} brokers, each of which has a queue "
                f"0: give the column 'brokerName' beside 'queueId'"
            )

    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        """Writes the rows of one partition.

        Raises:
            RowError: a row cannot be a message.
            OperatingError: the brokers do not take the rows.
        """
        return write_rows(self._options, self._queues, self._writer, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Says where the rows of a marked write lie, and writes the report if one is wanted.

        Raises:
            OperatingError: the rows are in the topic, but the commit is not confirmed.
        """
        if self._writer is not None:
            commit_rows(self._options, self._writer, 0, messages)
        if self._options.commit_file is None:
            return
        rows: Counter[str] = Counter()
        unconfirmed_rows = 0
        for message in messages:
            if isinstance(message, WrittenRows):
                rows.update(message.rows_by_queue)
                unconfirmed_rows += message.unconfirmed_rows
        report = {"rowsByQueue": dict(sorted(rows.items())), "unconfirmedRows": unconfirmed_rows}
        unfinished = f"{self._options.commit_file}.part"
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump(report, file)
        os.replace(unfinished, self._options.commit_file)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to take back: what was stored stays, and the job fails with its task's reason."""


def write_rows(
    options: WriteOptions,
    queues: Sequence[MessageQueue],
    writer: Writer | None,
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
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    marks = None if writer is None else TaskMarks(writer, epoch, partition)
    with SendingThread(options, queues) as sending:
        task = WritingTask(options, sending, partition, marks)
        for block in blocks(batches):
            task.write(block)
        sent = sending.finish()
    rows = {f"{q.broker_name}:{q.queue_id}": n for q, n in sent.rows_by_queue.items()}
    return WrittenRows(rows, sent.unconfirmed_rows, sent.places)


def commit_rows(
    options: WriteOptions,
    writer: Writer,
    epoch: int,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    """Commits what the tasks of a marked write have written (see `pocketmq.spark.commits`).

    Raises:
        OperatingError: the broker did not confirm it.
    """
    places = merged(m.places for m in messages if isinstance(m, WrittenRows))
    run(_commit(options, writer, epoch, places))


async def _commit(options: WriteOptions, writer: Writer, epoch: int, places: Places) -> None:
    async with ClientInstance(options.namesrv_addr) as instance:
        await publish(instance, options.commit_topic, writer, epoch, places)


class _Origin(NamedTuple):
    """What all messages of a task bear."""

    topic: bytes
    born_host: bytes


class WritingTask:
    """Encodes blocks of rows and hands them to the sender.

    Args:
        options: of the write.
        sending: where the chunks go.
        turn: where rows in turn begin, so that tasks do not all begin at the same queue.
        marks: what rows are marked with, if they are.
    """

    def __init__(
        self, options: WriteOptions, sending: SendingThread, turn: int, marks: TaskMarks | None
    ) -> None:
        self._options, self._sending, self._turn = options, sending, turn
        self._marks = marks
        self._rows = RowReader(options.max_message_size)
        self._keys = UniqueKeyBlocks(sending.instance.unique_keys.next())
        self._origin = _Origin(options.topic.encode(), encode_host(local_address(), 0)[:8])
        sender = sending.sender
        self._takes_records = np.array([sender.takes_records(i) for i in range(len(sender.queues))])
        self._queue_ids = np.array([q.queue_id for q in sender.queues], np.int32)
        self._queue_of = {(q.broker_name, q.queue_id): i for i, q in enumerate(sender.queues)}

    def write(self, block: Any) -> None:
        """Encodes a block and submits it; waits while too much is under way.

        Raises:
            RowError: a row cannot be a message.
            OperatingError: an earlier chunk could not be sent.
        """
        columns = self._rows.columns(block)
        if self._marks is not None:
            columns = columns._replace(marks=self._marks.draw(block.num_rows))
        try:
            routed, is_bound = self._route(block, columns)
            if routed.order is not None:
                columns = columns.take(routed.order)
            first = 0
            while first < block.num_rows:
                first = self._write_run(columns, routed, first, is_bound=is_bound)
        except RowError as e:
            raise self._rows.placed(e, block.num_rows) from None

    def _write_run(self, columns: Columns, routed: Routed, first: int, *, is_bound: bool) -> int:
        """Writes the rows from one on that brokers of one kind take; returns where they end."""
        is_record = self._takes_records[routed.queues[first:]]
        differs = np.flatnonzero(is_record != is_record[0])
        size = int(differs[0]) if len(differs) else len(is_record)
        queues = routed.queues[first : first + size]
        encoded = self._encode(columns.slice(first, size), queues, is_record=bool(is_record[0]))
        groups = [g - first for g in routed.groups if first < g < first + size] + [size]
        batch_bytes = self._options.batch_bytes
        if not is_record[0]:
            batch_bytes = min(batch_bytes, PLAIN_BATCH_BYTES_MAX)
        bounds = chunk_bounds(encoded.ends, groups, batch_bytes, self._options.batch_rows)
        for start, end in itertools.pairwise(bounds):
            chunk = Chunk(int(queues[start]), encoded.chunk(start, end), is_bound)
            self._sending.submit(chunk)
        return first + size

    def _encode(self, columns: Columns, queues: Any, *, is_record: bool) -> Encoded:
        unique_keys = self._keys.draw(len(queues))
        if not is_record:
            return encode_entries(columns, unique_keys=unique_keys)
        return encode_records(
            columns,
            topic=self._origin.topic,
            queue_ids=self._queue_ids[queues],
            born_timestamp=self._sending.instance.clock.now_ms(),
            born_host=self._origin.born_host,
            unique_keys=unique_keys,
        )

    def _route(self, block: Any, columns: Columns) -> tuple[Routed, bool]:
        routing, names = self._options.routing, block.schema.names
        if routing == "auto" and QUEUE_ID in names:
            return by_queue(self._named_queues(block)), True
        if routing == "auto" and SHARDING_KEY in names:
            return by_hash(columns.sharding_keys, len(self._queue_ids)), True
        if routing == "key":
            return by_hash(columns.keys, len(self._queue_ids)), True
        usable = self._sending.sender.usable_queues()
        routed = in_turn(block.num_rows, usable, self._turn)
        self._turn += len(routed.groups)
        return routed, False

    def _named_queues(self, block: Any) -> Any:
        """The index of each row's queue."""
        ids = block[QUEUE_ID].cast(pa.int64())
        if BROKER_NAME in block.schema.names:
            names = block[BROKER_NAME].cast(pa.string())
        else:
            only = next(iter(self._queue_of))[0]
            names = pa.repeat(pa.scalar(only, pa.string()), block.num_rows)
        places = pa.StructArray.from_arrays([names, ids], ["broker", "queue"])
        # There are few different places, so Python looks up each of them once.
        texts = pc.binary_join_element_wise(names, pc.cast(ids, pa.string()), "\0").fill_null("")
        codes = texts.dictionary_encode().indices.to_numpy()
        _, first_rows = np.unique(codes, return_index=True)
        found = np.empty(len(first_rows), np.int64)
        for code, row in enumerate(first_rows.tolist()):
            place = places[row].as_py()
            queue = self._queue_of.get((place["broker"], place["queue"]))
            if queue is None:
                raise RowError(
                    row,
                    f"topic {self._options.topic} has no writable queue {place['queue']} on broker "
                    f"{place['broker']}",
                )
            found[code] = queue
        return found[codes]


def blocks(batches: Iterator[Any]) -> Iterator[Any]:
    """Record batches collected, or cut, to blocks of about `BLOCK_BYTES`."""
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
