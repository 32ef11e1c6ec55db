"""The commands `pocketmq store …`, for data directories and their backups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, note, print_json
from pocketmq.cli.servers.store_backups import backup, backups, check_backups, restore
from pocketmq.cli.servers.store_dump import dump
from pocketmq.cli.servers.store_progress import progress
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.broker.store.mending.check import CheckReport

app = typer.Typer(help="Look after a broker's data directory; back it up.", no_args_is_help=True)
for command in (backup, restore, backups, dump):
    app.command()(command)

DirectoryArgument = Annotated[Path, typer.Argument(help="A broker's storePathRootDir.")]


@app.command()
def check(directory: DirectoryArgument, output: FormatOption = Format.TABLE) -> None:
    """Verify every record, index entry and key, and the metadata, or a directory of backups.

    Nothing is changed. Exit code 0: all is sound; 1: something is wrong, each finding with its
    remedy, or a broker has the directory open. After a crash the end of a log may be torn or its
    index behind: the broker mends both when it starts.
    """
    from pocketmq.broker.store.mending.check import check_directory, log_size

    if (directory / "backups").is_dir():
        check_backups(directory, output)
        return
    with _held(directory, changes=False), progress("checking", log_size(directory)) as on_progress:
        report = check_directory(directory, on_progress)
    if output is Format.JSON:
        print_json(
            {
                **report._asdict(),
                "problems": report.problems,
                "findings": [f._asdict() | {"path": str(f.path)} for f in report.findings],
            }
        )
    else:
        for problem in report.problems:
            typer.echo(problem)
        _summary(report)
    if report.findings:
        raise typer.Exit(EXIT_FAILED)


def _summary(report: CheckReport) -> None:
    for text in report.notes:
        note(f"note: {text}")
    note(
        f"checked {counted(report.records, 'record')}, {counted(report.size, 'byte')}, with their "
        f"index entries and keys, in {counted(report.segments, 'segment')} of "
        f"{counted(report.queues, 'queue')}, and meta.db: "
        + (counted(len(report.findings), "problem") if report.findings else "all sound")
    )


@app.command()
def repair(
    directory: DirectoryArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Mend a data directory: what is sound stays, everything else is moved into a folder in it.

    Torn ends are cut, indexes made again from the logs, damaged segments moved aside, a corrupt
    meta.db made again from what can be read of it and from the logs. Exit code 0: nothing is wrong
    any more; 1: something cannot be repaired, or with --dry-run: there is something to do.
    """
    from pocketmq.broker.store.mending.check import check_directory, log_size
    from pocketmq.broker.store.mending.repair import repair_directory
    from pocketmq.runtime.clock import SystemClock

    folder = directory / f"set-aside-{SystemClock().now_ms()}"
    with _held(directory, changes=True):
        size = log_size(directory)
        with progress("looking", size) as on_progress:
            done = repair_directory(directory, folder, dry_run=dry_run, on_progress=on_progress)
        report = None
        if not dry_run:
            with progress("checking", log_size(directory)) as on_progress:
                report = check_directory(directory, on_progress)
    left = [] if report is None else report.problems
    if output is Format.JSON:
        print_json(
            {
                "steps": done.steps,
                "refusals": done.refusals,
                "folder": str(done.folder) if done.folder.exists() else None,
                "left": left,
            }
        )
    else:
        for line in (*done.steps, *done.refusals, *left):
            typer.echo(line)
        if done.folder.exists():
            note(f"what was taken out of service, and a report, are in {done.folder}")
        if report is not None:
            _summary(report)
        else:
            note(f"{len(done.steps)} things to do; nothing was changed")
    if done.refusals or left or (dry_run and done.steps):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def release(directory: DirectoryArgument) -> None:
    """Have a data directory taken over by the next broker that starts on it, whatever its name.

    For a broker that was renamed on purpose, or a copy that is to become another broker's.
    """
    from pocketmq.broker.store.metadata.metadata import Metadata
    from pocketmq.broker.store.metadata.owner import STATE

    with _held(directory, changes=True):
        metadata = Metadata(directory / "meta.db")
        try:
            metadata.remove_state(STATE)
        finally:
            metadata.close()
    note(f"{directory} will be that of the next broker which starts on it")


@contextmanager
def _held(directory: Path, *, changes: bool) -> Iterator[None]:
    """Locks a data directory, so that no broker opens it meanwhile."""
    from pocketmq.broker.store.disk.errors import DirectoryError
    from pocketmq.broker.store.disk.lock import DirectoryLock

    if not (directory / "queues").is_dir() and not (directory / "meta.db").exists():
        raise UsageError(f"{directory} is not a broker's data directory: it has no queues/")
    try:
        lock = DirectoryLock(directory)
    except DirectoryError:
        if changes:
            raise
        lock = DirectoryLock(directory, read_only=True)
    try:
        yield
    finally:
        lock.release()
