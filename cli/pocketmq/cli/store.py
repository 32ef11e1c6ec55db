"""`pocketmq store …`: look after a broker's data directory while no broker has it open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, note, print_json
from pocketmq.protocol.errors import UsageError

app = typer.Typer(help="Look after a broker's data directory.", no_args_is_help=True)


@app.command()
def check(
    directory: Annotated[Path, typer.Argument(help="A broker's storePathRootDir.")],
    output: FormatOption = Format.TABLE,
) -> None:
    """Verify every record and index entry; exit code 1 if something is wrong.

    After a crash the end of a log may be torn or its index behind: the broker mends both when it
    starts, so check after a clean stop.
    """
    from pocketmq.broker.store.check import check_directory
    from pocketmq.broker.store.lock import DirectoryLock

    if not (directory / "queues").is_dir() and not (directory / "meta.db").exists():
        raise UsageError(f"{directory} is not a broker's data directory: it has no queues/")
    lock = DirectoryLock(directory)
    try:
        report = check_directory(directory)
    finally:
        lock.release()
    if output is Format.JSON:
        print_json(report._asdict())
    else:
        for problem in report.problems:
            typer.echo(problem)
        note(
            f"{report.records:,} records, {report.size:,} bytes in {report.queues:,} queues: "
            + (f"{len(report.problems)} problems" if report.problems else "all sound")
        )
    if report.problems:
        raise typer.Exit(EXIT_FAILED)
