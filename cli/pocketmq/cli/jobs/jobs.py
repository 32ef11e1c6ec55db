"""The commands `pocketmq ingest`, `export` and `archive`, which run Spark jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import (
    NAMESRV_DEFAULT,
    NamesrvOption,
    duration_ms,
    name_value_pairs,
    time_ms,
)
from pocketmq.cli.output import Format, note, print_json, print_rows
from pocketmq.cli.signals import interruptible

if TYPE_CHECKING:
    from pocketmq.spark.jobs.reports import IngestReport, RangeReport

SLICE_ROWS_DEFAULT = 10_000_000
GOES_ON = "the same command again goes on where this one stopped"
STAYS = "what was sent stays in the topic, and another run sends it again; see --checkpoint"

ReaderOptions = Annotated[
    list[str] | None, typer.Option("--read", help="name=value for Spark's reader; repeatable.")
]
MessageReaderOptions = Annotated[
    list[str] | None,
    typer.Option("--read", help="name=value, an option of a read as dropRepeats; repeatable."),
]
WriterOptions = Annotated[
    list[str] | None,
    typer.Option("--write", help="name=value, an option of a write as batchBytes; repeatable."),
]
CoresOption = Annotated[
    int | None, typer.Option(help="Cores of the local Spark session; all by default.")
]
ProgressOption = Annotated[bool, typer.Option(help="Show a bar on standard error.")]
OutputOption = Annotated[
    Format, typer.Option("-o", "--output", help="table: one line on stderr; json: a document.")
]

SubjectOption = Annotated[
    str | None, typer.Option(help="Subject of the schema registry; to write, TOPIC-value.")
]
RegistryOption = Annotated[
    str | None,
    typer.Option(help="Address of the schema registry; or set POCKETMQ_SCHEMA_REGISTRY."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
SinceOption = Annotated[
    str | None, typer.Option(help="Messages stored at this time (ISO 8601) or later.")
]
UntilOption = Annotated[str | None, typer.Option(help="Messages stored before this time.")]
TimezoneOption = Annotated[str, typer.Option(help="Whose days the directories are of.")]
SliceOption = Annotated[
    int, typer.Option(help="Messages that are done again, at most, after a run was cut off.")
]


def ingest(
    source: Annotated[str, typer.Argument(help="A file, a directory, a pattern, or a table.")],
    topic: Annotated[str, typer.Option(help="Where the rows go.")],
    key: Annotated[
        str | None, typer.Option(help="Column with the business key; a field by its path.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Column with the tag.")] = None,
    sharding_key: Annotated[
        str | None, typer.Option(help="Column whose equal values go to one queue, in input order.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="Column with the body, as JSON if it has parts; by default the row as JSON."
        ),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="parquet, csv, json or orc; by the suffix.")
    ] = None,
    read: ReaderOptions = None,
    write: WriterOptions = None,
    queues: Annotated[
        int, typer.Option(help="Queues on each broker if the topic is new; 0: it must exist.")
    ] = 16,
    checkpoint: Annotated[
        str | None, typer.Option(help="Directory that says which files were loaded: only new ones.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            help="File with the schema of bodies (Avro, Protobuf): .avsc, .proto, .proto:MESSAGE."
        ),
    ] = None,
    subject: SubjectOption = None,
    schema_registry: RegistryOption = None,
    register: Annotated[
        bool, typer.Option(help="Register the schema if the registry does not hold it.")
    ] = True,
    dry_run: DryRunOption = False,
    cores: CoresOption = None,
    progress: ProgressOption = True,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: OutputOption = Format.TABLE,
) -> None:
    """Load a file or table into a topic with a Spark job."""
    from pocketmq.spark.jobs.ingest import IngestOptions
    from pocketmq.spark.jobs.ingest import ingest as run_job

    options = IngestOptions(
        source,
        topic,
        namesrv=namesrv,
        key=key,
        tag=tag,
        sharding_key=sharding_key,
        value=value,
        format=format_,
        reader_options=name_value_pairs("--read", read),
        writer_options=name_value_pairs("--write", write),
        create_topic_queues=queues,
        checkpoint=checkpoint,
        schema=schema,
        subject=subject,
        schema_registry=schema_registry,
        register_schema=register,
        dry_run=dry_run,
        cores=cores,
        progress=progress,
    )
    with interruptible(STAYS if checkpoint is None else GOES_ON):
        report = run_job(options)
    _print_report(report, output)


def _print_report(report: IngestReport, output: Format) -> None:
    if output is Format.JSON:
        print_json(report.document())
        return
    rows = [{"queue": queue, "rows": rows} for queue, rows in sorted(report.rows_by_queue.items())]
    if rows:
        print_rows(rows, ("queue", "rows"), output)
    note(str(report))


def export(
    topic: Annotated[str, typer.Argument(help="A topic, or several separated by commas.")],
    to: Annotated[
        str, typer.Option(help="A new directory, or that of an earlier export: what is new.")
    ],
    since: SinceOption = None,
    until: UntilOption = None,
    format_: Annotated[
        str, typer.Option("--format", help="parquet, json, csv or orc.")
    ] = "parquet",
    timezone: TimezoneOption = "UTC",
    starting_offsets: Annotated[
        str, typer.Option(help="earliest, or JSON of offsets by topic, broker and queue.")
    ] = "earliest",
    ending_offsets: Annotated[
        str, typer.Option(help="latest, or JSON of offsets by topic, broker and queue.")
    ] = "latest",
    text: Annotated[bool, typer.Option("--text", help="Write bodies as UTF-8 text.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the directory.")] = False,
    schema: Annotated[
        str | None,
        typer.Option(help="File with the schema by which bodies become columns; see ingest."),
    ] = None,
    subject: SubjectOption = None,
    schema_registry: RegistryOption = None,
    keep_undecoded: Annotated[
        bool,
        typer.Option(
            "--keep-undecoded", help="Write bodies that cannot be decoded to a column rawValue."
        ),
    ] = False,
    read: MessageReaderOptions = None,
    slice_rows: SliceOption = SLICE_ROWS_DEFAULT,
    dry_run: DryRunOption = False,
    cores: CoresOption = None,
    progress: ProgressOption = True,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: OutputOption = Format.TABLE,
) -> None:
    """Write the messages of a topic to files by day with a Spark job; what is there is left."""
    from pocketmq.spark.jobs.export import ExportOptions
    from pocketmq.spark.jobs.export import export as run_job

    options = ExportOptions(
        topic,
        to,
        namesrv=namesrv,
        format=format_,
        starting_offsets=starting_offsets,
        ending_offsets=ending_offsets,
        since_ms=None if since is None else time_ms("--since", since),
        until_ms=None if until is None else time_ms("--until", until),
        timezone=timezone,
        value_as_text=text,
        overwrite=overwrite,
        schema=schema,
        subject=subject,
        schema_registry=schema_registry,
        keep_undecoded=keep_undecoded,
        reader_options=name_value_pairs("--read", read),
        slice_rows=slice_rows,
        dry_run=dry_run,
        cores=cores,
        progress=progress,
    )
    with interruptible(GOES_ON):
        report = run_job(options)
    _print_ranges(report, output)


def archive(
    topics: Annotated[str, typer.Argument(help="A topic, or several separated by commas.")],
    to: Annotated[str, typer.Option(help="The archive: a directory, the same in each run.")],
    margin: Annotated[
        str, typer.Option(help="How long before its end a message is archived, as 24h; see -h.")
    ] = "24h",
    timezone: TimezoneOption = "UTC",
    read: MessageReaderOptions = None,
    slice_rows: SliceOption = SLICE_ROWS_DEFAULT,
    dry_run: DryRunOption = False,
    cores: CoresOption = None,
    progress: ProgressOption = True,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: OutputOption = Format.TABLE,
) -> None:
    """Write what retention is about to delete to Parquet by day; to be run regularly.

    Taken is what is older than the broker's fileReservedTime less the margin, so run it more often
    than once in a margin. Exit code 3: messages were deleted before they could be archived.
    """
    from pocketmq.spark.jobs.archive import ArchiveOptions
    from pocketmq.spark.jobs.archive import archive as run_job

    options = ArchiveOptions(
        topics,
        to,
        namesrv=namesrv,
        margin_ms=duration_ms("--margin", margin),
        timezone=timezone,
        reader_options=name_value_pairs("--read", read),
        slice_rows=slice_rows,
        dry_run=dry_run,
        cores=cores,
        progress=progress,
    )
    with interruptible(GOES_ON):
        report = run_job(options)
    _print_ranges(report, output)


def _print_ranges(report: RangeReport, output: Format) -> None:
    if output is Format.JSON:
        print_json(report.document())
    else:
        if rows := report.queue_rows():
            print_rows(rows, tuple(rows[0]), output)
        note(str(report))
    if report.exit_code:
        raise typer.Exit(report.exit_code)
