"""The commands `pocketmq store backup`, `restore` and `backups`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.administration.brokers import BrokerOption, broker_address
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import (
    EXIT_FAILED,
    Format,
    FormatOption,
    date,
    note,
    print_json,
    print_rows,
)
from pocketmq.cli.servers.store_progress import growing_progress, progress
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.broker.backup.copying import BackupReport
    from pocketmq.broker.backup.directory import Backup
    from pocketmq.client import Admin
    from pocketmq.protocol.requests.extensions.backups import BackupTablesResponse

BackupsArgument = Annotated[Path, typer.Argument(help="A directory of backups.")]

CALL_TIMEOUT_MS = 60_000
"""How long a broker may take for a snapshot, or for an answer of some megabytes."""

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMG]?)i?B?(?:/s)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class _Broker:
    """The broker of a backup, asked by an admin client."""

    def __init__(self, admin: Admin, address: str) -> None:
        self._admin, self._address = admin, address

    async def tables(self, snapshot: str, page: int) -> tuple[BackupTablesResponse, bytes]:
        return await self._admin.backup_tables(self._address, snapshot, page)

    async def logs(self, snapshot: str, wants: bytes) -> tuple[int, bytes]:
        return await self._admin.backup_logs(self._address, snapshot, wants)


def backup(
    directory: BackupsArgument,
    broker: BrokerOption = None,
    rate: Annotated[
        str, typer.Option("--rate", help="Bytes a second at the most, such as 50M; 0: no limit.")
    ] = "0",
    keep: Annotated[
        int, typer.Option("--keep", min=0, help="Remove all backups but so many; 0: keep all.")
    ] = 0,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Back up a running broker: the first time everything, then what is new.

    Everything that was acknowledged before the backup began is in it. Exit code 0: it is whole and
    on the disk; 1: it could not be made, and the earlier ones are as they were, or a queue of the
    broker is damaged, and the backup has what could be read.
    """
    from pocketmq.broker.backup.copying import BackupOptions, back_up
    from pocketmq.client import Admin

    options = BackupOptions(_rate(rate), keep)

    async def main() -> BackupReport:
        async with Admin(namesrv, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
            asked = _Broker(admin, await broker_address(admin, broker))
            with growing_progress("copying") as on_progress:
                return await back_up(directory, asked, SystemClock(), options, on_progress)

    report = run(main())
    made = report.backup
    for text in made.notes:
        note(f"warning: {text}")
    if output is Format.JSON:
        print_json(_row(made) | {"removed": report.removed, "notes": made.notes})
    else:
        typer.echo(
            f"backup {made.number} of {made.broker_name}: copied "
            f"{counted(made.copied_size, 'byte')} in {made.duration_ms / 1000:.1f} s; "
            f"{counted(len(made.logs), 'queue')}, {counted(made.size, 'byte')} in all"
        )
        if report.removed:
            note(f"removed: {', '.join(map(str, report.removed))}")
    if report.incomplete:
        raise typer.Exit(EXIT_FAILED)


def restore(
    directory: BackupsArgument,
    target: Annotated[
        Path, typer.Argument(help="The storePathRootDir to make; it must be missing or empty.")
    ],
    number: Annotated[
        int | None, typer.Option("--number", min=1, help="Of the backup; by default the newest.")
    ] = None,
    leave_set: Annotated[
        bool,
        typer.Option(
            "--leave-set",
            help="The directory belongs to no broker set any more: for a broker of its own, or the "
            "first member of a new set.",
        ),
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Make a data directory of a backup, which any broker may then start on.

    A directory of a broker set joins this set again as a follower, and gets what is newer from the
    leader. Exit code 0: the directory is whole and on the disk; 1: there is none.
    """
    from pocketmq.broker.backup.restoring import restore as make_directory

    begun_s = SystemClock().monotonic()
    with growing_progress("restoring") as on_progress:
        report = run(
            make_directory(
                directory, target, SystemClock(), number, leave_set=leave_set,
                on_progress=on_progress,
            )
        )  # fmt: skip
    duration_s = SystemClock().monotonic() - begun_s
    if output is Format.JSON:
        row = _row(report.backup) | {
            "directory": str(target),
            "records": report.records,
            "restoreDurationMs": round(duration_s * 1000),
        }
        print_json(row)
        return
    typer.echo(
        f"{target}: {counted(report.records, 'message')} in {counted(report.queues, 'queue')} of "
        f"{report.backup.broker_name}, as of {date(report.backup.taken_ms)}, in {duration_s:.1f} s"
    )
    if report.backup.set_id and not leave_set:
        note("it belongs to the broker set that it was in, and joins it as a follower")


def backups(directory: BackupsArgument, output: FormatOption = Format.TABLE) -> None:
    """List the backups in a directory."""
    from pocketmq.broker.backup.directory import BackupDirectory

    found = BackupDirectory(directory)
    with found.held(changes=False):
        rows = [_row(found.read(number)) for number in found.numbers()]
    if output is Format.TABLE:
        rows = [row | {"taken": date(row["takenMs"])} for row in rows]
    columns = ("number", "broker", "taken", "copied", "size", "queues", "durationMs")
    print_rows(rows, columns if output is Format.TABLE else tuple(rows[0]) if rows else (), output)


def check_backups(directory: Path, output: Format) -> None:
    """Verifies all bytes of all backups in a directory.

    Raises:
        Exit: 1, something is damaged.
    """
    from pocketmq.broker.backup.checking import check_backups as check
    from pocketmq.broker.backup.checking import packs_size

    with progress("checking", packs_size(directory)) as on_progress:
        report = check(directory, on_progress)
    if output is Format.JSON:
        print_json({"backups": report.backups, "size": report.size, "problems": report.problems})
    else:
        for problem in report.problems:
            typer.echo(problem)
        note(
            f"checked {counted(len(report.backups), 'backup')}, {counted(report.size, 'byte')}: "
            + (counted(len(report.problems), "problem") if report.problems else "all sound")
        )
    if report.problems:
        raise typer.Exit(EXIT_FAILED)


def _row(made: Backup) -> dict[str, Any]:
    return {
        "number": made.number,
        "cluster": made.cluster_name,
        "broker": made.broker_name,
        "takenMs": made.taken_ms,
        "durationMs": made.duration_ms,
        "copied": made.copied_size,
        "size": made.size,
        "queues": len(made.logs),
    }


def _rate(text: str) -> int:
    """Reads bytes a second.

    Raises:
        UsageError: they are none.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--rate {text!r} is no number of bytes: write 800K, 50M, 1.5G or 0")
    return round(float(match[1]) * _UNITS[match[2].upper()])
