"""The commands `pocketmq dlq list|show`, which show dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.dead_letters.selecting import (
    AttemptsOption,
    ErrorOption,
    GroupArgument,
    IdOption,
    KeyOption,
    OriginOption,
    SinceOption,
    StateOption,
    TagOption,
    UntilOption,
    WhereOption,
    selection,
)
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, date, note, print_json, print_rows
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.protocol.bodies.redrives import LetterCounts, LetterSample, RedrivePlan

app = typer.Typer(
    no_args_is_help=True,
    help="Look at dead letters, send them again, or discard them.",
)

LIST_COLUMNS = ("group", "open", "redriven", "discarded", "oldest", "newest")
SHOW_COLUMNS = ("broker", "offset", "id", "dead", "state", "attempts", "topic", "error", "body")
BODY_SHOWN_LENGTH = 80


@app.command("list")
def list_groups(
    namesrv: NamesrvOption = NAMESRV_DEFAULT, output: FormatOption = Format.TABLE
) -> None:
    """List the groups that have dead letters, and what became of them."""
    from pocketmq.client import Admin

    async def main() -> list[LetterCounts]:
        async with Admin(namesrv) as admin:
            return await admin.dead_letter_counts()

    rows = [
        {
            "group": counts.group,
            "open": counts.open,
            "redriven": counts.redriven,
            "discarded": counts.discarded,
            "oldest": date(counts.oldest_ms),
            "newest": date(counts.newest_ms),
        }
        for counts in run(main())
    ]
    print_rows(rows, LIST_COLUMNS, output)


@app.command()
def show(
    group: GroupArgument,
    ids: IdOption = None,
    where: WhereOption = None,
    error: ErrorOption = None,
    topic: OriginOption = None,
    key: KeyOption = None,
    tag: TagOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    attempts: AttemptsOption = None,
    state: StateOption = None,
    count: Annotated[
        int, typer.Option("-c", "--count", min=0, max=100, help="Of each broker, so many.")
    ] = 20,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show dead letters of a group: why they failed, and what became of them.

    Which ones: the oldest that the options select, by default those that are open.
    """
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.redrives import RedriveAction, RedriveOrder

    chosen = selection(ids, where, error, topic, key, tag, since, until, attempts, state)
    order = RedriveOrder(group=group, action=RedriveAction.REOPEN, selection=chosen)

    async def main() -> list[RedrivePlan]:
        async with Admin(namesrv) as admin:
            return await admin.plan_redrive(order, samples=count)

    plans = run(main())
    if output is Format.JSON:
        rows = [_document(plan.broker_name, one) for plan in plans for one in plan.samples]
        print_json(rows)
    else:
        rows = [_row(plan.broker_name, one) for plan in plans for one in plan.samples]
        print_rows(rows, SHOW_COLUMNS, output)
    _tell(plans, len(rows))


def _tell(plans: list[RedrivePlan], shown: int) -> None:
    total = sum(plan.count for plan in plans)
    scanned = sum(plan.scanned for plan in plans)
    note(f"{shown} of {counted(total, 'dead letter')} shown; {scanned} looked at")
    for error, number in errors_of(plans).items():
        note(f"{number:>8} {error}")


def errors_of(plans: list[RedrivePlan]) -> dict[str, int]:
    """How many dead letters have failed with which error, the most frequent first."""
    counts: dict[str, int] = {}
    for plan in plans:
        for error, number in plan.errors.items():
            counts[error] = counts.get(error, 0) + number
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _row(broker_name: str, letter: LetterSample) -> dict[str, Any]:
    body = " ".join(letter.before.split())
    return {
        "broker": broker_name,
        "offset": f"{letter.queue_id}:{letter.offset}",
        "id": letter.message_id,
        "dead": date(letter.stored_ms),
        "state": letter.state.value,
        "attempts": letter.attempts,
        "topic": letter.origin,
        "error": letter.error,
        "body": body if len(body) <= BODY_SHOWN_LENGTH else f"{body[:BODY_SHOWN_LENGTH]}…",
    }


def _document(broker_name: str, letter: LetterSample) -> dict[str, Any]:
    return {
        "broker": broker_name,
        "queue": letter.queue_id,
        "offset": letter.offset,
        "id": letter.message_id,
        "deadMs": letter.stored_ms,
        "state": letter.state.value,
        "attempts": letter.attempts,
        "topic": letter.origin,
        "error": letter.error,
        "properties": letter.properties_before,
        "body": letter.before,
    }
