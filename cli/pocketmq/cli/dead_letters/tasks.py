"""The commands `pocketmq dlq status|pause|resume|cancel|results`, about redrives under way."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.dead_letters import redriving
from pocketmq.cli.dead_letters.looking import app
from pocketmq.cli.dead_letters.selecting import GroupArgument
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, date, note, print_json, print_rows
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.redrives import LetterResult, Redrive

__all__ = ["app"]

RedriveArgument = Annotated[str, typer.Argument(help="The redrive's name, as `status` shows it.")]
ReasonOption = Annotated[str, typer.Option(help="Why, for the audit.", show_default=False)]

STATUS_COLUMNS = ("redrive", "broker", "action", "state", "planned", "sent", "discarded",
                  "reopened", "refused", "begun", "ended", "reason", "why")  # fmt: skip
RESULT_COLUMNS = ("broker", "queue", "offset", "id", "outcome", "topic", "toQueue", "toOffset",
                  "reason")  # fmt: skip


@app.command()
def status(
    group: GroupArgument,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the redrives of a group, the newest first."""
    from pocketmq.client import Admin

    async def main() -> list[Redrive]:
        async with Admin(namesrv) as admin:
            return await admin.redrives(group)

    redrives = run(main())
    if output is Format.JSON:
        print_json([redriving.redrive_document(redrive) for redrive in redrives])
    else:
        print_rows([_row(redrive) for redrive in redrives], STATUS_COLUMNS, output)


def _row(redrive: Redrive) -> dict[str, Any]:
    return {
        "redrive": redrive.redrive_id,
        "broker": redrive.broker_name,
        "action": redrive.order.action.value,
        "state": redrive.state.value,
        "planned": redrive.planned,
        "sent": redrive.sent,
        "discarded": redrive.discarded,
        "reopened": redrive.reopened,
        "refused": redrive.refused,
        "begun": date(redrive.created_ms),
        "ended": date(redrive.ended_ms),
        "reason": redrive.order.reason,
        "why": redrive.why,
    }


@app.command()
def pause(
    group: GroupArgument,
    redrive: RedriveArgument,
    reason: ReasonOption = "",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Have a redrive stop for now."""
    _change(namesrv, group, redrive, "pause", reason)


@app.command()
def resume(
    group: GroupArgument,
    redrive: RedriveArgument,
    reason: ReasonOption = "",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Have a paused redrive go on; refused messages do not pause it again."""
    _change(namesrv, group, redrive, "resume", reason)


@app.command()
def cancel(
    group: GroupArgument,
    redrive: RedriveArgument,
    reason: ReasonOption = "",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """End a redrive; what it has sent stays sent."""
    _change(namesrv, group, redrive, "cancel", reason)


def _change(namesrv: str, group: str, redrive_id: str, change: str, reason: str) -> None:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.redrives import RedriveChange

    async def main() -> list[Redrive]:
        async with Admin(namesrv) as admin:
            return await admin.change_redrive(
                group, redrive_id, RedriveChange(change), reason=reason
            )

    for redrive in run(main()):
        note(redriving.summary(redrive))


@app.command()
def results(
    group: GroupArgument,
    redrive: RedriveArgument,
    refused: Annotated[
        bool, typer.Option("--refused", help="Only what was refused, with its reason.")
    ] = False,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show what became of each dead letter in a redrive; as JSON, one line for each."""
    from pocketmq.client import Admin

    async def main() -> list[dict[str, Any]]:
        rows = []
        async with Admin(namesrv) as admin:
            async for broker_name, result in _results(admin, group, redrive):
                if refused and result.outcome != "refused":
                    continue
                row = _result_row(broker_name, result)
                if output is Format.JSON:
                    _print_line(row)
                else:
                    rows.append(row)
        return rows

    rows = run(main())
    if output is Format.TABLE:
        print_rows(rows, RESULT_COLUMNS, output)


async def _results(
    admin: Admin, group: str, redrive_id: str
) -> AsyncIterator[tuple[str, LetterResult]]:
    from pocketmq.protocol.errors import UsageError

    brokers = {r.broker_name for r in await admin.redrives(group) if r.redrive_id == redrive_id}
    if not brokers:
        raise UsageError(f"there is no redrive {redrive_id!r} of {group}")
    for broker_name in sorted(brokers):
        begin = -1
        while True:
            page = await admin.redrive_results(group, redrive_id, broker_name, begin)
            for result in page.results:
                yield broker_name, result
            begin = page.next
            if begin < 0:
                break


def _print_line(row: dict[str, Any]) -> None:
    import json

    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


def _result_row(broker_name: str, result: LetterResult) -> dict[str, Any]:
    return {
        "broker": broker_name,
        "queue": result.queue_id,
        "offset": result.offset,
        "id": result.message_id,
        "outcome": result.outcome.value,
        "topic": result.topic or None,
        "toQueue": None if result.to_queue_id < 0 else result.to_queue_id,
        "toOffset": None if result.to_offset < 0 else result.to_offset,
        "reason": result.reason or None,
    }
