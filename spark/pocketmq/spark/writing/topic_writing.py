"""Rows of one topic: to which queues they go, and how they get there."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.client.instance.identity import local_address
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import RowError
from pocketmq.spark.options import MEBIBYTE, WriteOptions
from pocketmq.spark.rows.columns import BROKER_NAME, QUEUE_ID, SHARDING_KEY
from pocketmq.spark.rows.encoding import (
    Columns,
    Encoded,
    UniqueKeyBlocks,
    chunk_bounds,
    encode_entries,
    encode_records,
)
from pocketmq.spark.rows.routing import Routed, by_queue, hashed, in_turn
from pocketmq.spark.writing.sending import Chunk
from pocketmq.spark.writing.sending_thread import SendingThread

PLAIN_BATCH_BYTES_MAX = MEBIBYTE
"""Of a request to a broker that is not PocketMQ: its limit of 4 MiB is for the stored form, which
is larger, and is often set lower."""


class _Origin(NamedTuple):
    """What all messages of a task bear."""

    topic: bytes
    born_host: bytes


class TopicWriting:
    """Encodes rows of one topic and hands them to the sender.

    Args:
        options: of the write.
        sending: where the chunks go.
        topic: of the rows.
        turn: where rows in turn begin, so that tasks do not all begin at the same queue.
    """

    def __init__(
        self, options: WriteOptions, sending: SendingThread, topic: str, turn: int
    ) -> None:
        self._options, self._sending, self._topic, self._turn = options, sending, topic, turn
        self._sender = sender = sending.sender_of(topic)
        self._keys = UniqueKeyBlocks(sending.instance.unique_keys.next())
        self._origin = _Origin(topic.encode(), encode_host(local_address(), 0)[:8])
        self._takes_records = np.array([sender.takes_records(i) for i in range(len(sender.queues))])
        self._queue_ids = np.array([q.queue_id for q in sender.queues], np.int32)
        self._queue_of = {(q.broker_name, q.queue_id): i for i, q in enumerate(sender.queues)}

    def write(self, block: Any, columns: Columns) -> None:
        """Encodes a block and submits it; waits while too much is under way.

        Args:
            block: the rows as they came.
            columns: the same rows, as they are to be sent.

        Raises:
            RowError: a row cannot be a message.
            OperatingError: an earlier chunk could not be sent.
        """
        routed, is_bound = self._route(block, columns)
        if routed.order is not None:
            columns = columns.take(routed.order)
        first = 0
        while first < block.num_rows:
            try:
                first = self._write_run(columns, routed, first, is_bound=is_bound)
            except RowError as e:
                row = first + e.row
                if routed.order is not None:
                    row = int(routed.order[row])
                raise RowError(row, e.reason) from None

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
            self._sending.submit(self._sender, chunk)
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

    def queues_of(self, block: Any, columns: Columns) -> list[MessageQueue] | None:
        """The queue to which each row is bound; None if they may go anywhere.

        Raises:
            RowError: a row names a queue that is not there.
        """
        bound = self._bound_queues(block, columns)
        return None if bound is None else [self._sender.queues[i] for i in bound.tolist()]

    def _bound_queues(self, block: Any, columns: Columns) -> Any:
        routing, names = self._options.routing, block.schema.names
        if routing == "auto" and QUEUE_ID in names:
            return self._named_queues(block)
        if routing == "auto" and SHARDING_KEY in names:
            return hashed(columns.sharding_keys, len(self._queue_ids))
        if routing == "key":
            return hashed(columns.keys, len(self._queue_ids))
        return None

    def _route(self, block: Any, columns: Columns) -> tuple[Routed, bool]:
        bound = self._bound_queues(block, columns)
        if bound is not None:
            return by_queue(bound), True
        routed = in_turn(block.num_rows, self._sender.usable_queues(), self._turn)
        self._turn += len(routed.groups)
        return routed, False

    def _named_queues(self, block: Any) -> Any:
        """The index of each row's queue."""
        ids = block[QUEUE_ID].cast(pa.int64())
        if BROKER_NAME in block.schema.names:
            names = block[BROKER_NAME].cast(pa.string())
        else:
            only = next(iter(self._queue_of))[0]
            if any(name != only for name, _ in self._queue_of):
                raise RowError(
                    0,
                    f"topic {self._topic} lies on several brokers, each of which has a queue 0: "
                    f"give the column 'brokerName' beside 'queueId'",
                )
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
                    f"topic {self._topic} has no writable queue {place['queue']} on broker "
                    f"{place['broker']}",
                )
            found[code] = queue
        return found[codes]
