"""The stream reader: messages of topics become the rows of micro-batches.

On the driver Spark keeps one reader for the life of a query and asks it for the bounds of each
batch; copies of it read the batches' ranges, exactly as a batch read does.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.spark.plain_errors import plain_errors
from pocketmq.spark.reading.reader import MessageReader, RangePartition
from pocketmq.spark.streaming.driver import StreamDriver
from pocketmq.spark.streaming.offsets import Position
from pocketmq.spark.streaming.options import StreamOptions

T = TypeVar("T")

Json = dict[str, Any]
Column = tuple[str, str]


class _Connected:
    """A client instance on the loop of another thread, so that it lives between calls of Spark."""

    def __init__(self, options: StreamOptions) -> None:
        self._thread = LoopThread.shared()
        self._instance, self.driver = self.run(self._connect(options))

    @staticmethod
    async def _connect(options: StreamOptions) -> tuple[ClientInstance, StreamDriver]:
        instance = options.client()
        await instance.start()
        return instance, StreamDriver(instance, options)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def close(self) -> None:
        self.run(self._instance.close())
        self._thread.leave()


class UnlimitedStreamReader(DataSourceStreamReader):
    """A stream whose batches read all there is: before PySpark 4.2 there are no others.

    Args:
        options: of the stream.
        columns: which columns to read, see `MessageReader`.
    """

    def __init__(self, options: StreamOptions, columns: Sequence[Column] | None = None) -> None:
        self._options, self._columns = options, columns
        self._connected: _Connected | None = None
        self._first: Position | None = None

    def __getstate__(self) -> dict[str, Any]:
        own = {"_options": self._options, "_columns": self._columns}
        return {**own, "_connected": None, "_first": None}

    @property
    def _driver(self) -> StreamDriver:
        return self._connection.driver

    @property
    def _connection(self) -> _Connected:
        if self._connected is None:
            self._connected = _Connected(self._options)
        return self._connected

    @plain_errors()
    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._connection.run(coroutine)

    def initialOffset(self) -> Json:  # noqa: N802 (Spark's name)
        """Finds where a new query begins.

        Raises:
            MissingTopicError: a topic does not exist.
            OptionError, DataLossError: the offsets asked for do not fit.
            OperatingError: a broker cannot be asked.
        """
        self._first = self._run(self._driver.first_position())
        return self._first.encode()

    def latestOffset(self) -> Json:  # type: ignore[override]  # noqa: N802 (Spark's name)
        """Decides where the next batch ends, for a Spark that does not say where it begins.

        Raises:
            OperatingError: a broker cannot be asked.
        """
        return self._run(self._driver.last_position(self._first)).encode()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Divides a batch into tasks.

        Raises:
            OperatingError: a broker cannot be asked.
        """
        tasks = self._run(self._driver.tasks(Position.decode(start), Position.decode(end)))
        self._first = None
        return [RangePartition(task.wanted, task.counts) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yields the rows of one task, as record batches; see `MessageReader.read`."""
        return MessageReader(self._options, self._columns).read(partition)

    def commit(self, end: Json) -> None:
        """Commits the position of the query in the brokers, if it has a group."""
        self._run(self._driver.commit(Position.decode(end)))

    def stop(self) -> None:
        """Closes the connections."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None
