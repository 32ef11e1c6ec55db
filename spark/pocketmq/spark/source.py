"""The data source that Spark knows as format ``pocketmq``.

Spark starts a Python process for each step of a query, and each of them imports this module. So it
imports what a step needs within the method that the step calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from pocketmq.spark.errors import OptionError, SchemaError, nearest
from pocketmq.spark.options import (
    FORMAT,
    ReadOptions,
    read_options,
    stream_write_options,
    write_options,
)
from pocketmq.spark.plain_errors import plain_errors
from pocketmq.spark.streaming.options import check_batch_read, columns_options, stream_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = (
    ("topic", "string"),
    ("brokerName", "string"),
    ("queueId", "int"),
    ("queueOffset", "bigint"),
    ("msgId", "string"),
    ("keys", "string"),
    ("tags", "string"),
    ("value", "binary"),
    ("properties", "map<string,string>"),
    ("bornTimestamp", "timestamp"),
    ("storeTimestamp", "timestamp"),
    ("reconsumeTimes", "int"),
)
"""What a read gives, with Spark's types (see `decoding.SCHEMA`)."""


COLUMN_ALIASES = {"body": "value", "key": "keys", "tag": "tags"}
"""Other names that a schema may give to columns: those of Kafka's and of the older source."""

Column = tuple[str, str]


class MessageSource(DataSource):
    """Topics of a PocketMQ or RocketMQ cluster, read and written in batches and as streams."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that stands in ``format(...)``."""
        return FORMAT

    @plain_errors()
    def schema(self) -> str:
        """Returns the columns of a read, as Spark writes a schema.

        Raises:
            OptionError: an option is unknown or does not fit.
        """
        return schema_of(columns_options(self.options))

    @plain_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Makes the reader of a batch.

        Raises:
            SchemaError: a schema was given that names what messages do not have.
        """
        check_batch_read(self.options)
        options = read_options(self.options)
        return self._reader(options, _chosen_columns(schema))

    def _reader(self, options: ReadOptions, columns: Sequence[Column]) -> DataSourceReader:
        from pocketmq.spark.reading.reader import MessageReader

        return MessageReader(options, columns)

    # With its traceback: Spark up to 4.3 raises another error then, and shows this one above it.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Makes the reader of a stream.

        Raises:
            SchemaError: a schema was given that names what messages do not have.
            RequirementError: an option needs a newer PySpark.
        """
        from pocketmq.spark.features import installed_features
        from pocketmq.spark.streaming.reader import UnlimitedStreamReader

        options, columns = stream_options(self.options), _chosen_columns(schema)
        features = installed_features()
        features.check_read(options)
        if not features.has_limits:
            return UnlimitedStreamReader(options, columns)
        from pocketmq.spark.streaming.limited_reader import MessageStreamReader

        return MessageStreamReader(options, columns)

    @plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Makes the writer of a batch; wrong options and columns are found before the job starts.

        Raises:
            OptionError, SchemaError: the options or the columns do not fit.
            MissingTopicError: the topic does not exist and is not to be created.
            OperatingError: the cluster cannot be asked.
        """
        from pocketmq.runtime.process import run
        from pocketmq.spark.writing.planning import queues_and_writer
        from pocketmq.spark.writing.writer import MessageWriter, check_rows

        options = write_options(self.options)
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use .mode('append')")
        check_rows(options, schema, ())
        queues, writer = run(queues_and_writer(options))
        return MessageWriter(options, schema, queues, writer)

    @plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Makes the writer of a stream.

        Raises:
            OptionError, SchemaError: the options or the columns do not fit.
            MissingTopicError: the topic does not exist and is not to be created.
            RequirementError: this PySpark is too old.
            OperatingError: the cluster cannot be asked.
        """
        from pocketmq.spark.features import installed_features

        options = stream_write_options(self.options)
        installed_features().check_write()
        from pocketmq.runtime.process import run
        from pocketmq.spark.streaming.writer import MessageStreamWriter
        from pocketmq.spark.writing.planning import queues_and_brokers
        from pocketmq.spark.writing.writer import check_rows

        if overwrite:
            raise OptionError(
                "outputMode complete would write the whole result with each batch: use update"
            )
        check_rows(options, schema, ())
        return MessageStreamWriter(options, schema, *run(queues_and_brokers(options)))


class PushingSource(MessageSource):
    """The source for a session in which conditions may be pushed (see `register`)."""

    def _reader(self, options: ReadOptions, columns: Sequence[Column]) -> DataSourceReader:
        from pocketmq.spark.reading.reader import PushingReader

        return PushingReader(options, columns)


def schema_of(options: ReadOptions) -> str:
    """Returns the columns of a read, as Spark writes a schema."""
    with_properties = options.include_properties
    return ", ".join(
        f"{name} {kind}" for name, kind in COLUMNS if with_properties or name != "properties"
    )


def _chosen_columns(schema: StructType) -> list[Column]:
    """Returns the columns that a schema takes: pairs of a column's own and its given name."""
    kinds, chosen = dict(COLUMNS), []
    for field in schema.fields:
        name = COLUMN_ALIASES.get(field.name, field.name)
        kind = field.dataType.simpleString()
        if name not in kinds:
            raise SchemaError(
                f"messages have no column {field.name!r}; {nearest(field.name, kinds)}. Select or "
                f"parse after .load()"
            )
        if kind != kinds[name]:
            raise SchemaError(
                f"the column {field.name!r} is of type {kinds[name]}, not {kind}: cast it after "
                f".load()"
            )
        chosen.append((name, field.name))
    return chosen
