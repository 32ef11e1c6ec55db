"""`pocketmq ingest` and `pocketmq export`: files into topics and back, by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, name_value_pairs
from pocketmq.cli.output import Format, note, print_json, print_rows

if TYPE_CHECKING:
    from pocketmq.spark.jobs.ingest import IngestReport

ReaderOptions = Annotated[
    list[str] | None, typer.Option("--read", help="name=value for Spark's reader; repeatable.")
]
CoresOption = Annotated[
    int | None, typer.Option(help="Cores of the local Spark session; all by default.")
]
ProgressOption = Annotated[bool, typer.Option(help="Show a bar on standard error.")]
OutputOption = Annotated[
    Format, typer.Option("-o", "--output", help="table: one line on stderr; json: a document.")
]


def ingest(
    source: Annotated[str, typer.Argument(help="A file, a directory, a pattern, or a table.")],
    topic: Annotated[str, typer.Option(help="Where the rows go.")],
    key: Annotated[str | None, typer.Option(help="Column with the business key.")] = None,
    tag: Annotated[str | None, typer.Option(help="Column with the tag.")] = None,
    sharding_key: Annotated[
        str | None, typer.Option(help="Column whose equal values go to one queue, in input order.")
    ] = None,
    value: Annotated[
        str | None, typer.Option(help="Column with the body; by default the row as JSON.")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="parquet, csv, json or orc; by the suffix.")
    ] = None,
    read: ReaderOptions = None,
    queues: Annotated[
        int, typer.Option(help="Queues on each broker if the topic is new; 0: it must exist.")
    ] = 16,
    cores: CoresOption = None,
    progress: ProgressOption = True,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: OutputOption = Format.TABLE,
) -> None:
    """Load a file or table into a topic with a Spark job."""
    from pocketmq.spark.jobs.ingest import IngestOptions
    from pocketmq.spark.jobs.ingest import ingest as run_job

    report = run_job(
        IngestOptions(
            source,
            topic,
            namesrv=namesrv,
            key=key,
            tag=tag,
            sharding_key=sharding_key,
            value=value,
            format=format_,
            reader_options=name_value_pairs("--read", read),
            create_topic_queues=queues,
            cores=cores,
            progress=progress,
        )
    )
    _print_report(report, output)


def _print_report(report: IngestReport, output: Format) -> None:
    if output is Format.JSON:
        print_json(
            {
                "topic": report.topic,
                "rows": report.rows,
                "seconds": round(report.seconds, 3),
                "rowsPerSecond": round(report.rows_per_s),
                "rowsByQueue": dict(report.rows_by_queue),
                "unconfirmedRows": report.unconfirmed_rows,
            }
        )
        return
    rows = [{"queue": queue, "rows": rows} for queue, rows in sorted(report.rows_by_queue.items())]
    print_rows(rows, ("queue", "rows"), output)
    note(str(report))


def export(
    topic: Annotated[str, typer.Argument(help="A topic, or several separated by commas.")],
    to: Annotated[str, typer.Option(help="A directory that does not exist yet.")],
    format_: Annotated[
        str, typer.Option("--format", help="parquet, json, csv or orc.")
    ] = "parquet",
    starting_offsets: Annotated[
        str, typer.Option(help="earliest, or JSON of offsets by topic, broker and queue.")
    ] = "earliest",
    ending_offsets: Annotated[
        str, typer.Option(help="latest, or JSON of offsets by topic, broker and queue.")
    ] = "latest",
    text: Annotated[bool, typer.Option("--text", help="Write bodies as UTF-8 text.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the directory.")] = False,
    cores: CoresOption = None,
    progress: ProgressOption = True,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: OutputOption = Format.TABLE,
) -> None:
    """Write the messages of a topic to files with a Spark job."""
    from pocketmq.spark.jobs.export import ExportOptions
    from pocketmq.spark.jobs.export import export as run_job

    report = run_job(
        ExportOptions(
            topic,
            to,
            namesrv=namesrv,
            format=format_,
            starting_offsets=starting_offsets,
            ending_offsets=ending_offsets,
            value_as_text=text,
            overwrite=overwrite,
            cores=cores,
            progress=progress,
        )
    )
    if output is Format.JSON:
        print_json(
            {
                "topic": report.topic,
                "to": report.to_dir,
                "rows": report.rows,
                "seconds": round(report.seconds, 3),
                "rowsPerSecond": round(report.rows_per_s),
            }
        )
    else:
        note(str(report))
