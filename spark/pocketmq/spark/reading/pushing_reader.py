"""A batch reader that Spark tells the conditions of its query (PySpark 4.1 and newer)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.spark.filtering import Expression
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.planning import planned_ranges
from pocketmq.spark.reading.pushdown import Pushed
from pocketmq.spark.reading.reader import MessageReader
from pocketmq.spark.reading.time_bounds import offsets_at

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class PushingReader(MessageReader):
    """Reads only what the conditions of the query leave.

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
        """Takes conditions; returns those that Spark has to evaluate all the same."""
        return self._pushed.take(filters)

    async def _ranges(self, instance: ClientInstance) -> list[Range]:
        pushed = self._pushed
        wanted = await planned_ranges(instance, self._options, pushed.takes_queue)
        wanted = [pushed.cut(r) for r in await self._cut_by_time(instance, wanted)]
        return [r for r in wanted if r.size]

    async def _cut_by_time(self, instance: ClientInstance, wanted: list[Range]) -> list[Range]:
        after_ms, before_ms = self._pushed.times_ms
        queues = [r.queue for r in wanted]
        if after_ms is not None:
            found = await offsets_at(instance, dict.fromkeys(queues, after_ms))
            wanted = [Range(r.queue, max(r.start, found[r.queue]), r.end) for r in wanted]
        if before_ms is not None:
            found = await offsets_at(instance, dict.fromkeys(queues, before_ms))
            wanted = [Range(r.queue, r.start, min(r.end, found[r.queue])) for r in wanted]
        return [r for r in wanted if r.start < r.end]

    @property
    def _expression(self) -> Expression:
        return self._pushed.expression(self._options.expression)
