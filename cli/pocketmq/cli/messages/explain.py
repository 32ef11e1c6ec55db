"""The command `pocketmq explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, TopicArgument
from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, date, print_json, print_rows
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client.explanation.explanation import Explanation

FACT_COLUMNS = ("fact", "value")


def explain(
    topic: TopicArgument,
    msg_id: Annotated[
        str,
        typer.Argument(
            help="The id that its send printed, an offset message id, or BROKER:QUEUE:OFFSET."
        ),
    ],
    group: Annotated[str, typer.Argument(help="The consumer group.")],
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say why a message is not consumed by a group, and what would change it.

    Nothing is changed by asking. Exit code 0: there is an answer, consumed or not; 1: there is no
    such message, topic or group, or a broker that may have the message does not answer.
    """
    from pocketmq.client import Admin
    from pocketmq.client.explanation.explaining import explain as explained

    async def main() -> Explanation:
        async with Admin(namesrv) as admin:
            return await explained(admin, topic, msg_id, group)

    explanation = run(main())
    if output is Format.JSON:
        import msgspec

        print_json(msgspec.to_builtins(explanation))
    else:
        _print(explanation)
    if explanation.state == "not-found":
        raise typer.Exit(EXIT_FAILED)


def _print(explanation: Explanation) -> None:
    import msgspec

    typer.echo(explanation.verdict)
    typer.echo()
    facts = {"state": explanation.state.value, **msgspec.to_builtins(explanation.facts)}
    print_rows([_row(name, value) for name, value in facts.items()], FACT_COLUMNS, Format.TABLE)
    typer.echo()
    for finding in explanation.findings:
        typer.echo(f"{finding.cause.value}: {finding.seen}")
    for unknown in explanation.unknown:
        typer.echo(f"unknown: {unknown}")
    remedies = [finding.remedy for finding in explanation.findings if finding.remedy]
    if remedies:
        typer.echo("\nwhat would change it:")
        for remedy in remedies:
            typer.echo(f"  - {remedy}")


def _row(name: str, value: Any) -> dict[str, Any]:
    if name == "waitedMs":
        return {"fact": "waited", "value": f"{value / 1000:g} s"}
    if name.endswith("Ms"):
        return {"fact": name.removesuffix("Ms"), "value": date(value)}
    return {"fact": name, "value": value}
