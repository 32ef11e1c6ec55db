"""The batch reader: messages of topics become rows.

The processes that plan a read import this module, too: what only a task needs is imported there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pocketmq.spark.filtering import Expression
from pocketmq.spark.garbage import spare_modules
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.plain_errors import plain_errors
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.pushdown import Pushed
from pocketmq.spark.reading.time_bounds import offsets_at

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from pocketmq.client.instance.instance import ClientInstance
    from pocketmq.spark.rows.decoding import RowFilter


class RangePartition(InputPartition):
    """The messages of one task: a range of one queue, and which of them count."""

    def __init__(self, wanted: Range, repeats: RowFilter | None = None) -> None:
        super().__init__(wanted)
        self.wanted, self.repeats = wanted, repeats


async def partitions_of(
    instance: ClientInstance, options: ReadOptions, wanted: Sequence[Range]
) -> list[RangePartition]:
    """Divides the ranges of a read into tasks.

    Raises:
        OperatingError: repeats are to be dropped, and the commits cannot be read.
    """
    filters = None
    if options.drop_repeats:  # read last: what is committed by then lies in the ranges
        from pocketmq.spark.reading.repeats import repeat_filters

        filters = await repeat_filters(instance, options, {r.queue.topic for r in wanted})
    pieces = offsets.split(wanted, options.min_partitions, options.max_records_per_partition)
    return [
        RangePartition(r, None if filters is None else filters.of_queue(r.queue)) for r in pieces
    ]


class MessageReader(DataSourceReader):
    """Reads ranges of queues as one batch: made on the driver, copied to each task.

    Args:
        options: of the read.
        columns: which columns to read, as pairs of the column's own name and the name it is given;
            all without it.
    """

    def __init__(
        self, options: ReadOptions, columns: Sequence[tuple[str, str]] | None = None
    ) -> None:
        self._options = options
        self._columns = None if columns is None else tuple(columns)

    @plain_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """Plans the tasks of the read, once, before the job starts.

        Raises:
            MissingTopicError: a topic does not exist.
            OptionError, DataLossError: the offsets asked for do not fit.
        """
        from pocketmq.runtime.process import run

        return run(self._partitions())

    async def _partitions(self) -> list[InputPartition]:

        async with self._options.client() as instance:
            wanted = await self._ranges(instance)
            return [*await partitions_of(instance, self._options, wanted)]

    async def _ranges(self, instance: ClientInstance) -> list[Range]:
        from pocketmq.spark.reading.planning import planned_ranges

        return await planned_ranges(instance, self._options)

    @property
    def _expression(self) -> Expression:
        return self._options.expression

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of one task, as record batches.

        Raises:
            DataLossError: messages are not there any more, and this is to be an error.
            OperatingError: the broker fails or refuses.
        """
        if not isinstance(partition, RangePartition):
            return  # there is nothing to read: Spark then makes one task of nothing
        with plain_errors():
            yield from self._batches(partition)

    def _batches(self, partition: RangePartition) -> Iterator[Any]:
        from pocketmq.spark.reading.pulling import pulled_parts
        from pocketmq.spark.rows.decoding import decode_records

        spare_modules()
        wanted, options = partition.wanted, self._options
        expression = self._expression
        for part in pulled_parts(options, wanted, expression):
            batch = decode_records(
                part,
                wanted.queue.broker_name,
                with_properties=self._with_properties,
                offset_end=wanted.end,
                repeats=partition.repeats,
                tags=expression.tags,
                columns=None if self._columns is None else {name for name, _ in self._columns},
            )
            if batch.num_rows:
                yield self._chosen(batch)

    @property
    def _with_properties(self) -> bool:
        if self._columns is None:
            return self._options.include_properties
        return any(name == "properties" for name, _ in self._columns)

    def _chosen(self, batch: Any) -> Any:
        if self._columns is None or list(self._columns) == [(n, n) for n in batch.schema.names]:
            return batch
        names = [name for name, _ in self._columns]
        return batch.select(names).rename_columns([given for _, given in self._columns])


class PushingReader(MessageReader):
    """Reads only what the conditions of the query leave, which PySpark 4.1 and newer tell.

    Args:
        options: of the read.
        columns: as of `MessageReader`.
    """

    def __init__(
        self, options: ReadOptions, columns: Sequence[tuple[str, str]] | None = None
    ) -> None:
        super().__init__(options, columns)
        self._pushed = Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Takes the conditions of the query; returns those that Spark has to evaluate."""
        return self._pushed.take(filters)

    async def _ranges(self, instance: ClientInstance) -> list[Range]:
        from pocketmq.spark.reading.planning import planned_ranges

        pushed = self._pushed
        wanted = await planned_ranges(instance, self._options, pushed.takes_queue)
        after_ms, before_ms = pushed.times_ms
        queues = [r.queue for r in wanted]
        if after_ms is not None:
            first = await offsets_at(instance, dict.fromkeys(queues, after_ms))
            wanted = [Range(r.queue, max(r.start, first[r.queue]), r.end) for r in wanted]
        if before_ms is not None:
            last = await offsets_at(instance, dict.fromkeys(queues, before_ms))
            wanted = [Range(r.queue, r.start, min(r.end, last[r.queue])) for r in wanted]
        return [r for r in map(pushed.cut, wanted) if r.start < r.end]

    @property
    def _expression(self) -> Expression:
        return self._pushed.expression(self._options.expression)
