"""The driver's part of a stream: one connection to the cluster for the life of a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark import topics
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.offsets import LATEST, Bound, Range
from pocketmq.spark.reading.selection import selected_queues
from pocketmq.spark.reading.time_bounds import starting_bound
from pocketmq.spark.retries import retried
from pocketmq.spark.streaming.limits import BatchLimits
from pocketmq.spark.streaming.offsets import Offsets, Position, batch_ranges, unknown_starts
from pocketmq.spark.streaming.options import StreamOptions
from pocketmq.spark.streaming.planning import next_position, waiting
from pocketmq.spark.streaming.survey import Survey, survey, survey_of_stream

if TYPE_CHECKING:
    from pocketmq.spark.rows.decoding import RowFilter
    from pocketmq.spark.streaming.commits import CommitFeed
    from pocketmq.spark.streaming.group import StreamGroup


class StreamTask(NamedTuple):
    """What one task of a batch reads.

    Attributes:
        wanted: a range of one queue.
        counts: which of its messages count; None for all.
    """

    wanted: Range
    counts: RowFilter | None = None


class StreamDriver:
    """Plans the batches of a query, and commits for its group.

    Args:
        instance: running.
        options: of the stream.
    """

    def __init__(self, instance: ClientInstance, options: StreamOptions) -> None:
        self._instance, self._options = instance, options
        self._limits = BatchLimits(options, instance.clock)
        self._stop_at: Offsets | None = None
        self._latest: Offsets = {}
        self._group: StreamGroup | None = None
        self._feed: CommitFeed | None = None
        # Most streams need neither, and to import them takes as long as to plan many batches.
        if options.has_group:
            from pocketmq.spark.streaming.group import StreamGroup

            self._group = StreamGroup(instance, options.consumer_group)
        if options.drop_repeats:
            from pocketmq.spark.streaming.commits import CommitFeed

            self._feed = CommitFeed(instance, options)

    async def first_position(self) -> Position:
        """Finds the position at which a new query begins.

        Raises:
            MissingTopicError: a topic does not exist.
            OptionError, DataLossError: the offsets asked for do not fit.
            OperatingError: a broker cannot be asked.
        """
        first = await self._first_position()
        if self._feed is None:
            return first
        return Position({**first.offsets, **await self._commit_ends({})}, {}, True, True)

    async def _first_position(self) -> Position:
        options = self._options
        has_time = bool(options.starting_timestamp or options.starting_offsets_by_timestamp)
        is_latest = options.starting_offsets.strip().lower() == "latest"
        queues = await selected_queues(self._instance, options)
        if has_time or not is_latest:
            given = msgspec.structs.replace(options, starting_offsets="earliest")
            bound = await starting_bound(self._instance, given if is_latest else options, queues)
        else:
            bound = Bound("startingOffsets", LATEST, {})
        ends = await topics.queue_ends(self._instance, queues)
        wanted = offsets.ranges(
            bound, Bound("", LATEST, {}), ends, fail_on_data_loss=options.fail_on_data_loss
        )
        following = {q: last for q, (_, last) in ends.items()}
        return Position({**following, **{r.queue: r.start for r in wanted}}, {}, is_first=True)

    async def stop_at_present(self) -> None:
        """Notes where the queues end: the query ends there (Trigger.AvailableNow).

        Raises:
            MissingTopicError, OperatingError: as `first_position`.
        """
        targets = {q: last for q, (_, last) in (await self._all_ends()).items()}
        if self._feed is not None:
            targets.update(await self._commit_ends({}))
        self._stop_at = targets

    async def next_position(self, start: Position, *, is_limited: bool) -> Position:
        """Decides where the next batch ends; returns the start itself if there is nothing to read.

        Args:
            start: where the last batch ended.
            is_limited: False for a trigger that reads all there is.

        Raises:
            DataLossError: messages that were not read are gone, and this is to be an error.
            OperatingError: no broker answers, or one whose queues have to be read to the end.
        """
        data = self._data_of(start)
        found = await self._survey(data.offsets)
        if self._group is not None:
            await self._group.make_known(found.held)
            # All before the start is done: Spark itself says so with the next batch only, and of
            # the last one of a query never.
            await self._group.commit(data.offsets)
        now = waiting(data, found, self._stop_at, fail_on_data_loss=self._options.fail_on_data_loss)
        self._latest = {q: last for q, last in data.offsets.items() if q not in now.dropped}
        self._latest.update({q: last for q, (_, last) in found.held.items()})
        # A query that ends with what is there must not wait for more.
        may_wait = is_limited and self._stop_at is None
        end = next_position(data, now, self._limits, is_limited=is_limited, may_wait=may_wait)
        if self._feed is not None:
            return await self._with_commits(self._feed, start, data, end)
        return start if end is data else end

    def _data_of(self, position: Position) -> Position:
        """Returns a position without the commit topic."""
        if not position.has_commits:
            return position
        return position.without_topic(self._options.commit_topic)

    async def _with_commits(
        self, feed: CommitFeed, start: Position, data: Position, end: Position
    ) -> Position:
        """Adds the commit topic to the end of a batch; makes one if passed rows were committed."""
        before = start.of_topic(self._options.commit_topic)
        ends = {**before, **await self._commit_ends(before)}
        # A stream that did not drop repeats so far has passed all that is committed by now.
        base = before if start.has_commits else ends
        await feed.follow(ends)
        if end is data:
            if not feed.late(base, ends, data.offsets):
                return start
            end = Position(data.offsets, dict(data.offsets) if data.is_first else {})
        starts = end.starts
        if start.is_first or not start.has_commits:
            starts = {**starts, **{q: base.get(q, 0) for q in ends}}
        return Position({**end.offsets, **ends}, starts, has_commits=True)

    async def _commit_ends(self, known: Offsets) -> Offsets:
        """Asks how far the commit topic reaches; empty if there was no marked write yet."""
        found = await self._survey(known, of_commits=True)
        ends = {q: last for q, (_, last) in found.held.items()}
        if self._stop_at is None:
            return ends
        return {q: min(last, self._stop_at.get(q, known.get(q, 0))) for q, last in ends.items()}

    async def last_position(self, first: Position | None) -> Position:
        """Returns the end of all queues, for a Spark that does not say where a batch begins.

        Args:
            first: where the query began, if it is to read its first batch.

        Raises:
            MissingTopicError, OperatingError: as `first_position`.
        """
        following = {q: last for q, (_, last) in (await self._all_ends()).items()}
        if first is None:
            return Position(following, {})
        return first if following == first.offsets else Position(following, first.offsets)

    async def _survey(self, known: Offsets, *, of_commits: bool = False) -> Survey:
        """Surveys the queues until enough have answered: all, where none may be passed over."""
        instance, options = self._instance, self._options
        needs_all = of_commits or self._stop_at is not None

        async def attempt() -> Survey:
            if of_commits:
                found = await survey(instance, [options.commit_topic], known)
            else:
                found = await survey_of_stream(instance, options, known)
            if found.silent and (needs_all or not found.held):
                raise next(iter(found.silent.values()))
            return found

        retries = options.retry_times_when_pull_failed
        return await retried(instance.clock, retries, attempt, gives_up=lambda _: False)

    async def _all_ends(self) -> Mapping[MessageQueue, tuple[int, int]]:
        queues = await selected_queues(self._instance, self._options)
        return await topics.queue_ends(self._instance, queues)

    @property
    def latest(self) -> Position | None:
        """The ends of the queues when they were last asked for."""
        return Position(self._latest, {}) if self._latest else None

    async def tasks(self, start: Position, end: Position) -> list[StreamTask]:
        """Divides the batch between two positions into tasks, always in the same way.

        Raises:
            OperatingError: a broker cannot be asked.
        """
        data_start, data_end = self._data_of(start), self._data_of(end)
        ranges = await self._ranges(data_start, data_end)
        if self._feed is None or not end.has_commits:
            return [StreamTask(r) for r in ranges]
        from pocketmq.spark.marked.intervals import Intervals
        from pocketmq.spark.streaming.commits import LateRows

        topic = self._options.commit_topic
        base = Position({**start.offsets, **end.starts}, {}).of_topic(topic)
        ends = end.of_topic(topic)
        passed = {**data_start.offsets, **data_end.starts}
        await self._feed.follow(ends)
        late = self._feed.late(base, ends, passed)
        self._feed.forget(base, passed)
        filters = self._feed.filters()
        tasks = [StreamTask(r, filters.of_queue(r.queue)) for r in ranges]
        for queue, pairs in sorted(late.items()):
            span = Range(queue, min(first for first, _ in pairs), max(last for _, last in pairs))
            tasks.append(StreamTask(span, LateRows(Intervals(pairs))))
        return tasks

    async def _ranges(self, start: Position, end: Position) -> list[Range]:
        unknown = unknown_starts(start, end)
        if unknown:  # before Spark 4.2
            ends = await topics.queue_ends(self._instance, unknown)
            starts = {q: min(least, end.offsets[q]) for q, (least, _) in ends.items()}
            end = Position(end.offsets, {**starts, **end.starts})
        options = self._options
        whole = batch_ranges(start, end)
        return offsets.split(whole, options.min_partitions, options.max_records_per_partition)

    async def commit(self, end: Position) -> None:
        """Commits the position of the query in the brokers, if it has a group."""
        if self._group is not None:
            await self._group.commit(self._data_of(end).offsets)
