"""The command `pocketmq doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, is_terminal, note, print_json
from pocketmq.cli.profiles.target import chosen_target
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.client.diagnosis.examination import Report
    from pocketmq.client.diagnosis.findings import Finding

EXIT_FOUND = 1
EXIT_CANNOT_CHECK = 2

LAG_MAX = 10_000


def doctor(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(help="A topic that does not work, to look at more closely.")
    ] = None,
    lag_max: Annotated[
        int, typer.Option(min=0, help="So many messages a group may be behind.")
    ] = LAG_MAX,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say why it does not work, seen from here, and what helps.

    Exit code 0: healthy; 1: something was found; 2: nothing could be checked.
    """
    from pocketmq.client.diagnosis.examination import examine
    from pocketmq.client.instance.addresses import namesrv_addresses

    addresses, origin = namesrv_addresses(namesrv), chosen_target(context).origin
    report = run(examine(addresses, SystemClock(), origin=origin, topic=topic, lag_max=lag_max))
    if output is Format.JSON:
        import msgspec

        print_json(msgspec.to_builtins(report))
    else:
        _print(report)
    if not report.can_check:
        raise typer.Exit(EXIT_CANNOT_CHECK)
    if not report.healthy:
        raise typer.Exit(EXIT_FOUND)


def _print(report: Report) -> None:
    note(f"asked {', '.join(report.namesrv)} ({report.origin})")
    for finding in report.findings:
        _print_finding(finding)
    kinds = (("broker", report.brokers), ("topic", report.topics), ("group", report.groups))
    seen = ", ".join(counted(count, kind) for kind, count in kinds)
    if not report.can_check:
        note("no name server answers: nothing else could be checked")
    elif report.healthy:
        typer.echo(f"healthy: {seen}, {counted(len(report.checks), 'check')}")
    else:
        note(
            f"{counted(len(report.findings), 'finding')} in {seen}; "
            f"{counted(len(report.checks), 'check')}"
        )


def _print_finding(finding: Finding) -> None:
    """Prints a finding: two paragraphs on a terminal, two lines in a pipe."""
    head = f"{finding.severity.value}: {finding.check}: {finding.subject}: {finding.seen}"
    if not is_terminal():
        typer.echo(f"{head}\n    remedy: {finding.remedy}")
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    colour = {"error": "bold red", "warning": "yellow", "note": "cyan"}[finding.severity.value]
    console = Console(highlight=False)
    console.print(Text.assemble((f"{finding.severity.value}  ", colour), (finding.subject, "bold")))
    console.print(Padding(Text(finding.seen), (0, 0, 0, 4)))
    console.print(Padding(Text.assemble(("→ ", "green"), finding.remedy), (0, 0, 1, 4)))
