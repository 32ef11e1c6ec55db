"""The stream reader for PySpark 4.2 and newer, which tells a source where it stands."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pocketmq.spark.streaming.offsets import Position
from pocketmq.spark.streaming.reader import Json, UnlimitedStreamReader


class MessageStreamReader(UnlimitedStreamReader, SupportsTriggerAvailableNow):
    """A stream with bounded batches.

    Args:
        options: of the stream.
        columns: which columns to read, see `MessageReader`.
    """

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Tells Spark that batches have limits, by one of the options."""
        if (most := self._options.max_offsets_per_trigger) is not None:
            return ReadMaxRows(most)
        if (least := self._options.min_offsets_per_trigger) is not None:
            return ReadMinRows(least)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Notes where the queues end: the query ends when it has read up to there.

        Raises:
            MissingTopicError: a topic does not exist.
            OperatingError: a broker cannot be asked.
        """
        self._run(self._driver.stop_at_present())

    def latestOffset(  # type: ignore[override]  # noqa: N802 (Spark's name)
        self, start: Json, limit: ReadLimit
    ) -> Json:
        """Decides where the next batch ends; returns the start if there is nothing to read.

        Args:
            start: where the last batch ended.
            limit: what the trigger allows.

        Raises:
            DataLossError: messages that were not read are gone, and this is to be an error.
            OperatingError: no broker answers.
        """
        position = Position.decode(start)
        is_limited = not isinstance(limit, ReadAllAvailable)
        end = self._run(self._driver.next_position(position, is_limited=is_limited))
        return dict(start) if end is position else end.encode()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 (Spark's name)
        """Returns how far the topics reach, for the progress of the query."""
        latest = self._driver.latest
        return None if latest is None else latest.encode()
