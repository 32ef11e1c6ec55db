"""Loads a file or table into a topic.

``spark-submit ingest.py FILE --topic Orders --key id`` does the same as ``pocketmq ingest``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.schemas.bodies import value_subject
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.columns import JSON_OPTIONS, body_column, quoted, text_column
from pocketmq.spark.jobs.command_line import JobParser
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.bad_rows import named_row
from pocketmq.spark.jobs.files.file_portions import FilePortions
from pocketmq.spark.jobs.files.files import Source, read_rows
from pocketmq.spark.jobs.files.json_values import exact_body, typed_columns
from pocketmq.spark.jobs.options import JobOptions, SchemaOptions
from pocketmq.spark.jobs.progress import TopicGrowth, shown
from pocketmq.spark.jobs.reports import IngestReport
from pocketmq.spark.options import FORMAT, write_options
from pocketmq.spark.schemas.bodies import BodySchema, encoded, writing_schema
from pocketmq.spark.schemas.struct_columns import schema_column
from pocketmq.spark.session import job_session
from pocketmq.spark.topics import queues_to_write

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["IngestOptions", "IngestReport", "ingest", "main"]

CREATE_TOPIC_QUEUES = 16
"""Queues on each broker of a topic that does not exist yet."""

PARTITIONS_PER_CORE = 2
_ORDER, _BODY = "__pocketmq_order_", "__pocketmq_body"


@dataclass(frozen=True)
class IngestOptions(JobOptions, SchemaOptions):
    """Which rows are loaded, and how they become messages.

    Attributes:
        source: a file, a directory, a pattern, or a table of Spark's catalog.
        topic: where the rows go.
        key: column that becomes the messages' business key; a space in it separates keys. A field
            of a column is named by its path, as ``customer.id``, here and below.
        tag: column that becomes their tag.
        sharding_key: column whose equal values go to one queue, in the order of the input.
        value: column that becomes their body, as JSON if it has parts; by default the whole row as
            JSON.
        format: of the file; by default that of its suffix.
        reader_options: of Spark's reader, such as ``{"sep": ";"}`` or ``{"inferSchema": "true"}``.
        writer_options: further options of the data source, such as batchBytes.
        create_topic_queues: queues on each broker if the topic is unknown; 0 makes that an error.
        checkpoint: a directory that says which files were loaded: a second run takes only new
            ones. Rows are marked then, so that readers with dropRepeats take each once, whatever
            cut a run off. Without one every run loads everything.
        schema, subject, schema_registry: by which schema of Avro or Protobuf bodies are written,
            instead of JSON. With a registry the schema of a file becomes the newest of the subject
            (``<topic>-value`` by default), and bodies have a frame with its id.
        register_schema: if not, a schema that the subject does not hold is an error.
    """

    source: str
    topic: str
    key: str | None = None
    tag: str | None = None
    sharding_key: str | None = None
    value: str | None = None
    format: str | None = None
    reader_options: Mapping[str, str] = field(default_factory=dict)
    writer_options: Mapping[str, str] = field(default_factory=dict)
    create_topic_queues: int = CREATE_TOPIC_QUEUES
    checkpoint: str | None = None
    register_schema: bool = True


def ingest(options: IngestOptions, spark: SparkSession | None = None) -> IngestReport:
    """Loads a file or table into a topic.

    Args:
        options: which rows are loaded, and how.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError, SchemaError: the options do not fit the rows or each other.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed; it holds the broker's reason.
    """
    settings = _write_settings(options)
    write_options(settings)
    by = _body_schema(options)
    with job_session("pocketmq ingest", options.cores, spark) as session:
        with job(f"reading {options.source}"):
            found = read_rows(
                session,
                options.source,
                options.format,
                options.reader_options,
                has_whole_files=options.checkpoint is not None,
            )
            messages = message_rows(found, options, by)
        try:
            if options.checkpoint is not None:
                return _run_by_files(session, found, options, settings, by)
            if options.dry_run:
                return _planned(messages, options, settings)
            return _run(session, messages, options, settings)
        except JobError as e:
            named = named_row(e, session, options.source, found.format, found.settings)
            raise named from e.__cause__


def _body_schema(options: IngestOptions) -> BodySchema | None:
    """Finds the schema of the bodies, and registers it; None if bodies are JSON."""
    options.check_schema()
    if not options.has_schema:
        return None
    return writing_schema(
        options.schema,
        registry=options.schema_registry,
        subject=options.subject or value_subject(options.topic),
        registers=options.register_schema,
        is_dry=options.dry_run,
    )


def _run_by_files(
    spark: SparkSession,
    found: Source,
    options: IngestOptions,
    settings: dict[str, str],
    by: BodySchema | None,
) -> IngestReport:
    assert options.checkpoint is not None
    if not found.is_file:
        raise OptionError(
            f"{options.source} is a table: a checkpoint goes by files; leave it out, and name "
            f"the write with the option writerId"
        )
    if "writerId" in options.writer_options:
        raise OptionError("option 'writerId' is set by the checkpoint: leave it out")
    kept = {"source": options.source, "topic": options.topic}
    portions = FilePortions(spark, options.checkpoint, found, kept)
    if options.dry_run:
        rows = message_rows(found._replace(rows=portions.new_rows()), options, by)
        return replace(_planned(rows, options, settings), files_done=portions.files_done)
    reports = []
    by_queue: Counter[str] = Counter()
    for portion in portions:
        with job(f"reading {options.source}"):
            messages = message_rows(found._replace(rows=portion.rows), options, by)
        reports.append(_run(spark, messages, options, {**settings, "writerId": portion.writer_id}))
        by_queue.update(reports[-1].rows_by_queue)
    return IngestReport(
        options.topic,
        sum(report.rows for report in reports),
        sum(report.seconds for report in reports),
        dict(by_queue),
        sum(report.unconfirmed_rows for report in reports),
        files_done=portions.files_done,
        files_loaded=portions.files_loaded,
        files_without_rows=tuple(portions.files_without_rows),
    )


def _planned(messages: DataFrame, options: IngestOptions, settings: dict[str, str]) -> IngestReport:
    """Counts the rows of a dry run, and checks that the topic is there or may be created."""
    clock = SystemClock()
    started = clock.monotonic()
    if not options.create_topic_queues:
        run(_find_topic(settings))
    with job(f"reading {options.source}"):
        rows = messages.count()
    return IngestReport(options.topic, rows, clock.monotonic() - started, {}, is_dry=True)


async def _find_topic(settings: dict[str, str]) -> None:
    options = write_options(settings)
    async with options.client() as instance:
        await queues_to_write(instance, options.topic, 0)


def _run(
    spark: SparkSession, messages: DataFrame, options: IngestOptions, settings: dict[str, str]
) -> IngestReport:
    clock, written = SystemClock(), write_options(settings)
    growth = TopicGrowth(
        written.namesrv_addr, options.topic, written.credentials, written.client_tls
    )
    with tempfile.TemporaryDirectory(prefix="pocketmq-ingest-") as directory:
        commit_file = Path(directory) / "committed.json"
        settings["commitFile"] = str(commit_file)
        started = clock.monotonic()
        with (
            shown(
                spark,
                f"ingest {options.topic}",
                lambda _: growth.rows(),
                is_wanted=options.progress,
            ),
            job(f"loading {options.source} into topic {options.topic}"),
        ):
            messages.write.format(FORMAT).options(**settings).mode("append").save()
        seconds = clock.monotonic() - started
        committed = json.loads(commit_file.read_text(encoding="utf-8"))
    rows_by_queue: dict[str, int] = committed["rowsByQueue"]
    return IngestReport(
        options.topic,
        sum(rows_by_queue.values()),
        seconds,
        rows_by_queue,
        committed["unconfirmedRows"],
    )


def _write_settings(options: IngestOptions) -> dict[str, str]:
    settings = {
        "topic": options.topic,
        "createTopicQueues": str(options.create_topic_queues),
        **options.writer_options,
    }
    if options.namesrv is not None:
        settings["namesrvAddr"] = options.namesrv
    return settings


def message_rows(source: Source, options: IngestOptions, by: BodySchema | None = None) -> DataFrame:
    """Makes rows of a source the columns of messages, in the partitions that their order asks for.

    Args:
        source: the rows.
        options: which column becomes what.
        by: the schema of the bodies; None for JSON.

    Raises:
        OptionError: a column does not exist, or cannot become the named part of a message.
    """
    from pyspark.sql import functions as sf

    rows, body = source.rows, None
    if source.types is not None:
        rows = source.rows.select(*typed_columns(source.types))
        body = exact_body(source.rows, source.types, options.value) if by is None else None
    named = {
        "keys": (options.key, "key"),
        "tags": (options.tag, "tag"),
        "shardingKey": (options.sharding_key, "sharding key"),
    }
    columns: list[Column] = [
        text_column(rows, column, part).alias(name)
        for name, (column, part) in named.items()
        if column is not None
    ]
    if body is not None and source.types is not None:
        rows = source.rows.select(*typed_columns(source.types), body.alias(_BODY))
        columns.append(sf.col(_BODY).alias("value"))
    elif by is not None:
        columns.append(schema_column(rows, options.value, by, set(_named_heads(options))))
    elif options.value is None:
        whole = sf.struct(*(sf.col(quoted(c)) for c in rows.columns))
        columns.append(sf.to_json(whole, JSON_OPTIONS).alias("value"))
    else:
        columns.append(body_column(rows, options.value).alias("value"))
    if options.sharding_key is None:
        messages = rows.select(*columns)
    else:
        messages = _in_order(rows, columns, is_file=source.is_file)
    return messages if by is None else encoded(messages, by)


def _named_heads(options: IngestOptions) -> Iterator[str]:
    """The columns that become other parts of a message than the body."""
    for name in (options.key, options.tag, options.sharding_key):
        if name is not None:
            yield name


def _in_order(rows: DataFrame, columns: Sequence[Column], *, is_file: bool) -> DataFrame:
    """Puts the rows of one sharding key into one task, in the order of the input.

    Spark reads a file in several tasks, and large files first. Only rows of one task keep their
    order on the way to a queue, so rows are shuffled by key and sorted by where they came from.
    """
    from pyspark.sql import functions as sf

    places = [sf.monotonically_increasing_id()]
    if is_file:
        places = [sf.col("_metadata.file_path"), sf.col("_metadata.file_block_start"), *places]
    order = [f"{_ORDER}{i}" for i in range(len(places))]
    aliased = (place.alias(name) for place, name in zip(places, order, strict=True))
    cores = rows.sparkSession.sparkContext.defaultParallelism
    return (
        rows.select(*columns, *aliased)
        .repartition(PARTITIONS_PER_CORE * cores, "shardingKey")
        .sortWithinPartitions(*order)
        .drop(*order)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the ingest that a command line asks for; returns the exit code."""
    parser = JobParser("Load a file or table into a topic.")
    parser.add_argument("source", help="file, directory, pattern or table")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--key", help="column of the business key; a field by its path")
    parser.add_argument("--tag", help="column of the tag")
    parser.add_argument("--sharding-key", help="column whose equal values stay in order")
    parser.add_argument("--value", help="column of the body; default: the row as JSON")
    parser.add_argument("--format", help="parquet, csv, json or orc; default: by suffix")
    parser.add_argument("--create-topic-queues", type=int, default=CREATE_TOPIC_QUEUES)
    parser.add_argument("--checkpoint", help="directory that says which files were loaded")
    parser.add_schema("of the bodies that are written")
    parser.add_argument("--no-register", dest="register_schema", action="store_false",
                        help="the registry must hold the schema")  # fmt: skip
    parser.add_further("--read", "reader_options", "reader of files")
    parser.add_further("--write", "writer_options", "write")
    return parser.run(arguments, lambda given: ingest(IngestOptions(**given)))


if __name__ == "__main__":
    sys.exit(main())
