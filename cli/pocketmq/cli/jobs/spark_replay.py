"""Runs `pocketmq replay` as a Spark job, from a topic or from the files of an export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pocketmq.cli.options import name_value_pairs, time_ms
from pocketmq.cli.output import Format, note, print_json, print_rows
from pocketmq.cli.signals import interruptible
from pocketmq.protocol.errors import UsageError

PANEL = "Of a topic or directory (Spark)"

WhereOption = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Only these: a condition in Spark's SQL over topic, keys, tags, value, properties…",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        rich_help_panel=PANEL,
        help="column=expression in Spark's SQL: value, keys, tags, shardingKey, properties, topic; "
        "repeatable.",
    ),
]
RateOption = Annotated[
    int, typer.Option(min=0, rich_help_panel=PANEL, help="Messages a second at most; 0: all.")
]
ReplaySinceOption = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="Stored at this time (ISO 8601) or later.")
]
ReplayUntilOption = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="Stored before this time.")
]
ToNamesrvOption = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="Send to this cluster, not the source's.")
]
CheckpointOption = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="Directory that says what was sent.")
]
RestartOption = Annotated[
    bool, typer.Option("--restart", rich_help_panel=PANEL, help="Forget what was sent.")
]
ReplayReadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        rich_help_panel=PANEL,
        help="name=value, an option of a topic's read as dropRepeats; repeatable.",
    ),
]
ReplayWriteOption = Annotated[
    list[str] | None,
    typer.Option(
        "--write",
        rich_help_panel=PANEL,
        help="name=value, an option of the write as createTopicQueues; repeatable.",
    ),
]
ReplayDryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", rich_help_panel=PANEL, help="Only say what would go where."),
]
ReplayCoresOption = Annotated[
    int | None, typer.Option(rich_help_panel=PANEL, help="Cores of the local Spark session.")
]


def is_for_spark(source: str) -> bool:
    """Tells whether a source is a directory, a URL or a topic; a recording is a file or a pipe.

    A name with a slash or a dot, which topics cannot have, is a file, whether it exists or not.
    """
    if source == "-" or Path(source).is_file():
        return False
    return Path(source).is_dir() or "://" in source or not {"/", "."} & set(source)


def has_spark() -> bool:
    """Tells whether PySpark is installed."""
    from pocketmq.spark.errors import RequirementError
    from pocketmq.spark.requirements import check_pyspark

    try:
        check_pyspark()
    except RequirementError:
        return False
    return True


def refuse(whose: str, given: Mapping[str, Any]) -> None:
    """Refuses options that belong to another kind of source.

    Raises:
        UsageError: one of the options is given; the error says which source takes it.
    """
    if wrong := [option for option, value in given.items() if value]:
        raise UsageError(f"{', '.join(wrong)}: an option {whose}")


def replay_by_spark(
    source: str,
    topic: str | None,
    namesrv: str,
    options: Mapping[str, Any],
    *,
    progress: bool,
    output: Format,
) -> None:
    """Replays a topic or a directory.

    Args:
        source: the topic or directory to read.
        topic, namesrv: the topic and cluster to send to.
        options: the options of this module, by their names on the command line.
        progress: show a bar.
        output: the format of the result.
    """
    _check_spark(source, topic)
    from pocketmq.spark.jobs.replay import ReplayOptions, replay

    since, until = options["--since"], options["--until"]
    given = ReplayOptions(
        source,
        topic,
        namesrv=namesrv,
        to_namesrv=options["--to-namesrv"],
        where=options["--where"],
        columns=name_value_pairs("--set", options["--set"]),
        rate=options["--rate"],
        since_ms=None if since is None else time_ms("--since", since),
        until_ms=None if until is None else time_ms("--until", until),
        checkpoint=options["--checkpoint"],
        restart=options["--restart"],
        reader_options=name_value_pairs("--read", options["--read"]),
        writer_options=name_value_pairs("--write", options["--write"]),
        dry_run=options["--dry-run"],
        cores=options["--cores"],
        progress=progress,
    )
    with interruptible("the same command again goes on where this one stopped"):
        report = replay(given)
    if output is Format.JSON:
        print_json(report.document())
    else:
        if routes := report.route_rows():
            print_rows(routes, ("from", "to", "messages"), output)
        if report.samples:
            print_rows(report.samples, tuple(report.samples[0]), output, title="for example")
        note(str(report))
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _check_spark(source: str, topic: str | None) -> None:
    """Checks that PySpark is installed.

    Raises:
        RequirementError: it is not; the text says how to do without.
    """
    from pocketmq.spark.errors import RequirementError
    from pocketmq.spark.requirements import check_pyspark

    try:
        check_pyspark()
    except RequirementError as e:
        without = (
            f"`pocketmq tail '{source}' --offset beginning --exit -f json | pocketmq produce "
            f"{topic or 'TOPIC'} -f json` sends a topic's messages again without Spark"
        )
        raise RequirementError(e.what, f"{e.remedy}; {without}") from e
