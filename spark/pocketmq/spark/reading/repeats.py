"""Tells a read which rows of a queue count; see `pocketmq.spark.marked.commits`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.errors import OperatingError, TopicMissingError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark import topics
from pocketmq.spark.errors import UnknownCommitError
from pocketmq.spark.marked.commits import CommitRecord, Commits
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.pulling import RangePull
from pocketmq.spark.rows.decoding import decode_records
from pocketmq.spark.rows.marks import WriterIdentity

Ints = npt.NDArray[np.int64]

ALWAYS, NEVER = 0, 2**63 - 1
"""Since when a broker's commits are known, in milliseconds: all of them, none of them."""


class RepeatFilter(NamedTuple):
    """Tells which rows of one queue count.

    Attributes:
        queue: which.
        committed: the offsets that count, by writer.
        known_since: by broker, from which store timestamp (ms) on its commits are known.
        fail_on_data_loss: fail if it cannot be known whether a row counts; otherwise it does.
    """

    queue: MessageQueue
    committed: Mapping[str, Intervals]
    known_since: Mapping[str, int]
    fail_on_data_loss: bool

    def counts(
        self, writers: Any, offsets: Ints, store_timestamps: Ints
    ) -> npt.NDArray[np.bool_] | None:
        """Tells which rows count; None for all.

        Args:
            writers: the property ``WRITER_ID`` of each row; null for rows without a mark.
            offsets: of the rows.
            store_timestamps: of the rows, milliseconds.

        Raises:
            UnknownCommitError: see `fail_on_data_loss`.
        """
        if writers.null_count == len(writers):
            return None
        coded = writers.dictionary_encode()
        codes = np.array(coded.indices.fill_null(-1))
        found: npt.NDArray[np.bool_] = codes == -1
        for code, text in enumerate(coded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            found[rows] = self._counts(text, offsets[rows], store_timestamps[rows])
        return found

    def _counts(self, text: str, offsets: Ints, store_timestamps: Ints) -> npt.NDArray[np.bool_]:
        writer = WriterIdentity.parse(text)
        committed = self.committed.get(writer.writer_id)
        found = np.zeros(len(offsets), bool) if committed is None else committed.contains(offsets)
        unknown = ~found & (store_timestamps < self.known_since.get(writer.broker_name, NEVER))
        if unknown.any():
            if self.fail_on_data_loss:
                first = int(offsets[np.argmax(unknown)])
                is_there = writer.broker_name in self.known_since
                raise UnknownCommitError(str(self.queue), first, text, is_there=is_there)
            found |= unknown
        return found


class RepeatFilters:
    """Makes the filters of queues from what brokers hold of the commit topic."""

    def __init__(
        self, commits: Commits, known_since: Mapping[str, int], *, fail_on_data_loss: bool
    ) -> None:
        self._commits, self._known_since = commits, dict(known_since)
        self._fail_on_data_loss = fail_on_data_loss

    def of_queue(self, queue: MessageQueue) -> RepeatFilter:
        """Makes the filter for one queue."""
        committed = self._commits.of_queue(queue)
        return RepeatFilter(queue, committed, self._known_since, self._fail_on_data_loss)


async def repeat_filters(
    instance: ClientInstance, options: ReadOptions, topic_names: Iterable[str]
) -> RepeatFilters:
    """Reads the commit topic, as it is now, and makes the filters of queues.

    Raises:
        OperatingError: a broker that holds a part of it cannot be asked.
    """
    commits, known_since = Commits(topic_names), dict[str, int]()
    records: list[tuple[int, MessageQueue, int, CommitRecord]] = []
    try:
        queues = await topics.readable(instance, options.commit_topic)
    except TopicMissingError:
        queues = []  # no marked write has ever begun
    ends = await topics.queue_ends(instance, queues)
    for queue, (start, end) in ends.items():
        found = await commit_records(instance, options, Range(queue, start, end))
        records += found
        since = ALWAYS if start == 0 else found[0][0] if found else NEVER
        known_since[queue.broker_name] = max(known_since.get(queue.broker_name, ALWAYS), since)
    for *_, record in sorted(records, key=lambda r: r[:3]):
        commits.add(record)
    return RepeatFilters(commits, known_since, fail_on_data_loss=options.fail_on_data_loss)


async def commit_records(
    instance: ClientInstance, options: ReadOptions, wanted: Range
) -> list[tuple[int, MessageQueue, int, CommitRecord]]:
    """Reads the commits of a range: when each was stored (ms), its queue, its offset, and itself.

    Raises:
        OperatingError: the broker does not answer, or something is no commit.
    """
    if wanted.size <= 0:
        return []
    pull = RangePull(instance, msgspec.structs.replace(options, fail_on_data_loss=False), wanted)
    await pull.meet_broker()
    found = []
    while part := await pull.next_part():
        batch = decode_records(
            part, wanted.queue.broker_name, with_properties=False, offset_end=wanted.end
        )
        stored = batch["storeTimestamp"].cast("int64").to_numpy() // 1000
        rows = zip(
            stored.tolist(),
            batch["queueOffset"].to_pylist(),
            batch["value"].to_pylist(),
            strict=True,
        )
        found += [(at, wanted.queue, o, _decoded(wanted, o, body)) for at, o, body in rows]
    return found


def _decoded(wanted: Range, offset: int, body: bytes) -> CommitRecord:
    try:
        return msgspec.json.decode(body, type=CommitRecord)
    except msgspec.DecodeError as e:
        raise OperatingError(
            f"offset {offset} of {wanted.queue} is no commit of a Spark write ({e}): is the "
            f"topic used for something else? Name another one by the option commitTopic, in "
            f"writes and reads alike"
        ) from e
