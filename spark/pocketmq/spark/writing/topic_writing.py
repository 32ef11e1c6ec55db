"""Sends rows of one topic in bulk: chooses their queues, encodes them, submits the chunks."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.client.instance.identity import local_address
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.options import MEBIBYTE, WriteOptions
from pocketmq.spark.rows.encoding import (
    Encoded,
    UniqueKeyBlocks,
    chunk_bounds,
    encode_entries,
    encode_records,
)
from pocketmq.spark.rows.routing import Routed, by_queue, hashed, in_turn
from pocketmq.spark.rows.rows import Ints, Rows
from pocketmq.spark.writing.sending import Chunk
from pocketmq.spark.writing.sending_thread import SendingThread

PLAIN_BATCH_BYTES_MAX = MEBIBYTE
"""Of a request to a broker that is not PocketMQ: its limit of 4 MiB is for the stored form, which
is larger, and is often set lower."""


class _Origin(NamedTuple):
    """What all messages of one topic bear that a task sends."""

    topic: bytes
    born_host: bytes


class TopicWriting:
    """Encodes rows of one topic and hands them to the sender.

    Args:
        options: of the write.
        sending: where the chunks go.
        topic: of the rows.
        first_queue: the first of the queues to which rows go in turn.
    """

    def __init__(
        self, options: WriteOptions, sending: SendingThread, topic: str, first_queue: int
    ) -> None:
        self._options, self._sending, self._topic = options, sending, topic
        self._next_queue = first_queue
        self._sender = sender = sending.sender_of(topic)
        self._keys = UniqueKeyBlocks(sending.instance.unique_keys.next())
        self._origin = _Origin(topic.encode(), encode_host(local_address(), 0)[:8])
        self._takes_records = np.array([sender.takes_records(i) for i in range(len(sender.queues))])
        self._queue_ids = np.array([q.queue_id for q in sender.queues], np.int32)
        self._queue_of = {(q.broker_name, q.queue_id): i for i, q in enumerate(sender.queues)}

    def write(self, rows: Rows) -> None:
        """Encodes rows and submits them; waits while too many bytes are under way.

        Raises:
            RowError: a row cannot be a message.
            OperatingError: an earlier chunk could not be sent.
        """
        bound = self._bound_queues(rows)
        if bound is None:
            routed = in_turn(rows.size, self._sender.usable_queues(), self._next_queue)
            self._next_queue += len(routed.groups)
        else:
            routed = by_queue(bound)
        if routed.order is not None:
            rows = rows._replace(broker_names=None, queue_ids=None).take(routed.order)
        first = 0
        while first < rows.size:
            first = self._write_run(rows, routed, first, is_bound=bound is not None)

    def _write_run(self, rows: Rows, routed: Routed, first: int, *, is_bound: bool) -> int:
        """Writes the rows from one on that brokers of one kind take; returns where they end."""
        is_record = self._takes_records[routed.queues[first:]]
        differs = np.flatnonzero(is_record != is_record[0])
        size = int(differs[0]) if len(differs) else len(is_record)
        queues = routed.queues[first : first + size]
        encoded = self._encode(rows.slice(first, size), queues, is_record=bool(is_record[0]))
        groups = [g - first for g in routed.groups if first < g < first + size] + [size]
        batch_bytes = self._options.batch_bytes
        if not is_record[0]:
            batch_bytes = min(batch_bytes, PLAIN_BATCH_BYTES_MAX)
        bounds = chunk_bounds(encoded.ends, groups, batch_bytes, self._options.batch_rows)
        for start, end in itertools.pairwise(bounds):
            chunk = Chunk(int(queues[start]), encoded.chunk(start, end), is_bound)
            self._sending.submit(self._sender, chunk)
        return first + size

    def _encode(self, rows: Rows, queues: Ints, *, is_record: bool) -> Encoded:
        unique_keys = self._keys.draw(len(queues))
        if not is_record:
            return encode_entries(rows, unique_keys=unique_keys)
        return encode_records(
            rows,
            topic=self._origin.topic,
            queue_ids=self._queue_ids[queues],
            born_timestamp=self._sending.instance.clock.now_ms(),
            born_host=self._origin.born_host,
            unique_keys=unique_keys,
        )

    def queues_of(self, rows: Rows) -> list[MessageQueue] | None:
        """Returns the queue to which each row is bound; None if the rows may go anywhere.

        Raises:
            RowError: a row names a queue that is not there.
        """
        bound = self._bound_queues(rows)
        return None if bound is None else [self._sender.queues[i] for i in bound.tolist()]

    def _bound_queues(self, rows: Rows) -> Ints | None:
        """The index of the queue to which each row is bound; None if they may go anywhere."""
        routing = self._options.routing
        if routing == "auto" and rows.queue_ids is not None:
            return self._named_queues(rows)
        if routing == "auto" and rows.sharding_keys is not None:
            return hashed(rows.sharding_keys, len(self._queue_ids))
        if routing == "key":
            return hashed(rows.keys, len(self._queue_ids))
        return None

    def _named_queues(self, rows: Rows) -> Ints:
        """The index of the queue that each row names."""
        ids, names = rows.queue_ids.cast(pa.int64()), rows.broker_names
        if names is None:
            only = next(iter(self._queue_of))[0]
            if any(name != only for name, _ in self._queue_of):
                raise rows.error(
                    0,
                    f"topic {self._topic} lies on several brokers, each of which has a queue 0: "
                    f"give the column 'brokerName' beside 'queueId'",
                )
            names = pa.repeat(pa.scalar(only, pa.string()), rows.size)
        # There are few different queues, so Python looks up each of them once.
        texts = pc.binary_join_element_wise(names, pc.cast(ids, pa.string()), "\0").fill_null("")
        codes = texts.dictionary_encode().indices.to_numpy()
        _, first_rows = np.unique(codes, return_index=True)
        found: Ints = np.empty(len(first_rows), np.int64)
        for code, row in enumerate(first_rows.tolist()):
            broker_name, queue_id = names[row].as_py(), ids[row].as_py()
            queue = self._queue_of.get((broker_name, queue_id))
            if queue is None:
                raise rows.error(
                    row,
                    f"topic {self._topic} has no writable queue {queue_id} on broker {broker_name}",
                )
            found[code] = queue
        queues: Ints = found[codes]
        return queues
