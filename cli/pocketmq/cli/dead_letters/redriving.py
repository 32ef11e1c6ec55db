"""The commands `pocketmq dlq redrive|discard|reopen`: a plan, a question, and its progress."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.dead_letters.looking import app
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
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, name_value_pairs
from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, date, note, print_json
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.redrives import (
        LetterEdit,
        LetterSample,
        Redrive,
        RedriveOrder,
        RedrivePlan,
    )

LOOK_PERIOD_S = 0.2
"""How often the progress is asked for."""

GROUP_TARGET, ORIGIN_TARGET = "group", "origin"
"""Words of --to that are no topics; a topic of that name is written with topic: before it."""

TOPIC_PREFIX = "topic:"

EDIT_PANEL, TASK_PANEL = "How they are changed", "How they are sent"

ReasonOption = Annotated[
    str, typer.Option(help="Why, for the audit and for others.", show_default=False)
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Do not wait for the end: the brokers go on alone.")
]


@app.command()
def redrive(
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            help="group: only the group that failed gets them; origin: the topics that they were "
            "first sent to, with all their groups; or a topic."
        ),
    ] = GROUP_TARGET,
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
    patch: Annotated[
        str | None,
        typer.Option(rich_help_panel=EDIT_PANEL, help="A JSON merge patch for JSON bodies."),
    ] = None,
    body: Annotated[
        str | None,
        typer.Option(rich_help_panel=EDIT_PANEL, help="A new body; @FILE reads a file."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", rich_help_panel=EDIT_PANEL, help="name=value, a property; repeatable."
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=EDIT_PANEL, help="Take a property away; repeatable."),
    ] = None,
    new_tag: Annotated[
        str | None, typer.Option(rich_help_panel=EDIT_PANEL, help="A new tag.")
    ] = None,
    new_keys: Annotated[
        str | None, typer.Option(rich_help_panel=EDIT_PANEL, help="New keys.")
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            min=0, rich_help_panel=TASK_PANEL, help="Messages a second, of each broker; 0: all."
        ),
    ] = 500.0,
    max_failures: Annotated[
        int,
        typer.Option(
            min=0, rich_help_panel=TASK_PANEL, help="Pause after so many refused ones; 0: never."
        ),
    ] = 0,
    max_redrives: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=TASK_PANEL,
            help="Refuse what was sent again so often already; 0: never.",
        ),
    ] = 3,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    detach: DetachOption = False,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send dead letters again; they stay among the dead letters, marked as redriven.

    The brokers do the work: it goes on when this command ends, over restarts and switches of the
    leader, and sends no message twice.
    """
    from pocketmq.protocol.bodies.redrives import RedriveOrder

    order = RedriveOrder(
        group=group,
        selection=selection(ids, where, error, topic, key, tag, since, until, attempts, state),
        to=_target(to),
        edit=_edit(patch, body, set_, unset, new_tag, new_keys),
        rate=rate,
        failures_max=max_failures,
        redrives_max=max_redrives,
        reason=reason,
    )
    _carry_out(namesrv, order, dry_run=dry_run, yes=yes, detach=detach, output=output)


@app.command()
def discard(
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
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Mark dead letters as done with, without sending them; nothing is removed."""
    from pocketmq.protocol.bodies.redrives import RedriveAction, RedriveOrder

    chosen = selection(ids, where, error, topic, key, tag, since, until, attempts, state)
    order = RedriveOrder(group=group, action=RedriveAction.DISCARD, selection=chosen, reason=reason)
    _carry_out(namesrv, order, dry_run=dry_run, yes=yes, detach=False, output=output)


@app.command()
def reopen(
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
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Take the marks of dead letters away: they are open again. By default the discarded ones."""
    from pocketmq.protocol.bodies.redrives import LetterState, RedriveAction, RedriveOrder

    states = state or [LetterState.DISCARDED.value]
    chosen = selection(ids, where, error, topic, key, tag, since, until, attempts, states)
    order = RedriveOrder(group=group, action=RedriveAction.REOPEN, selection=chosen, reason=reason)
    _carry_out(namesrv, order, dry_run=dry_run, yes=yes, detach=False, output=output)


def redrive_all(
    namesrv: str, group: str, topic: str | None, *, rate: float, dry_run: bool, output: Format
) -> None:
    """Sends the open dead letters of a group to the topics that they were first sent to.

    Args:
        namesrv: the cluster.
        group: whose dead letters.
        topic: where to instead.
        rate: messages a second of each broker; 0 for no limit.
        dry_run: only say what would be done.
        output: the format of the result.
    """
    from pocketmq.protocol.bodies.redrives import TO_ORIGIN, RedriveOrder

    order = RedriveOrder(group=group, to=topic or TO_ORIGIN, rate=rate, reason="pocketmq replay")
    _carry_out(namesrv, order, dry_run=dry_run, yes=True, detach=False, output=output)


# -- the order ------------------------------------------------------------------------------------


def _target(to: str) -> str:
    from pocketmq.protocol.bodies.redrives import TO_GROUP, TO_ORIGIN

    return {GROUP_TARGET: TO_GROUP, ORIGIN_TARGET: TO_ORIGIN}.get(to, to.removeprefix(TOPIC_PREFIX))


def _edit(
    patch: str | None,
    body: str | None,
    set_: list[str] | None,
    unset: list[str] | None,
    tag: str | None,
    keys: str | None,
) -> LetterEdit:
    """Reads the options that change messages.

    Raises:
        UsageError, ConfigError: they cannot be used.
    """
    import base64

    from pocketmq.protocol.bodies.redrives import LetterEdit

    if patch is not None and body is not None:
        raise UsageError("give --patch or --body, not both")
    encoded = None
    if body is not None:
        content = body.encode()
        if body.startswith("@"):
            try:
                content = Path(body[1:]).read_bytes()
            except OSError as e:
                raise ConfigError(f"--body {body}: {e.strerror or e}") from e
        encoded = base64.b64encode(content).decode()
    return LetterEdit(
        body_base64=encoded,
        merge_patch=patch,
        properties=name_value_pairs("--set", set_),
        removed_properties=unset or [],
        tags=tag,
        keys=keys,
    )


# -- plan, question, progress ---------------------------------------------------------------------


def _carry_out(
    namesrv: str, order: RedriveOrder, *, dry_run: bool, yes: bool, detach: bool, output: Format
) -> None:
    redrives = run(_main(namesrv, order, dry_run=dry_run, yes=yes, detach=detach, output=output))
    if redrives is None:
        return
    if output is Format.JSON:
        print_json([redrive_document(redrive) for redrive in redrives])
    for redrive in redrives:
        note(summary(redrive))
    if any(redrive.state in ("failed", "paused") or redrive.refused for redrive in redrives):
        raise typer.Exit(EXIT_FAILED)


async def _main(
    namesrv: str, order: RedriveOrder, *, dry_run: bool, yes: bool, detach: bool, output: Format
) -> list[Redrive] | None:
    """Plans, asks, starts and waits; None if nothing was started."""
    from pocketmq.client import Admin

    async with Admin(namesrv) as admin:
        plans = await admin.plan_redrive(order)
        count = sum(plan.count for plan in plans)
        if dry_run and output is Format.JSON:
            import msgspec

            print_json(msgspec.to_builtins(plans))
            return None
        _show_plans(plans, order)
        if dry_run or not count:
            note("nothing was done" if dry_run else "no dead letter is selected")
            return None
        if not yes:
            _ask(f"{order.action} {counted(count, 'dead letter')}?")
        redrives = await admin.start_redrive(plans)
        redrive_id = redrives[0].redrive_id
        note(f"redrive {redrive_id} of {order.group}")
        if detach:
            note(f"see how it goes: pocketmq dlq status {order.group}")
            return redrives
        return await _wait(admin, order.group, redrive_id)


def _ask(question: str) -> None:
    """Asks on a terminal.

    Raises:
        UsageError: there is no terminal.
        typer.Exit: the answer is no.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Say --yes, or --dry-run to see what would be done")
    if not typer.confirm(question, err=True):
        raise typer.Exit(EXIT_FAILED)


async def _wait(admin: Admin, group: str, redrive_id: str) -> list[Redrive]:
    """Shows the progress until the redrive has stopped on all brokers."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    clock = SystemClock()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as progress:
        shown = progress.add_task(redrive_id, total=None)
        while True:
            redrives = [r for r in await admin.redrives(group) if r.redrive_id == redrive_id]
            planned = sum(redrive.planned for redrive in redrives)
            done = sum(redrive.done for redrive in redrives)
            progress.update(shown, total=planned, completed=done)
            if all(redrive.state != "running" for redrive in redrives):
                return redrives
            await clock.sleep(LOOK_PERIOD_S)


def _show_plans(plans: list[RedrivePlan], order: RedriveOrder) -> None:
    for plan in plans:
        where = ", ".join(f"{number} to {topic}" for topic, number in plan.targets.items())
        note(f"{plan.broker_name}: {counted(plan.count, 'dead letter')} of {plan.scanned} that "
             f"were looked at{f'; {where}' if where else ''}")  # fmt: skip
        if plan.count:
            note(f"  dead between {date(plan.oldest_ms)} and {date(plan.newest_ms)}")
        if plan.estimate_s >= 1:
            note(f"  takes about {plan.estimate_s:.0f} s")
        for warning in plan.warnings:
            note(f"  note: {warning}")
        for refusal, number in plan.refused.items():
            note(f"  {number} refused: {refusal}")
        if not order.edit.is_empty and plan.samples:
            _show_change(plan.samples[0])


def _show_change(sample: LetterSample) -> None:
    note(f"  for example {sample.message_id}:")
    if sample.refused:
        note(f"    refused: {sample.refused}")
        return
    if sample.before != sample.after:
        note(f"    - {sample.before}")
        note(f"    + {sample.after}")
    before, after = sample.properties_before, sample.properties_after
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            note(f"    {name}: {before.get(name, '(none)')} → {after.get(name, '(none)')}")


def redrive_document(redrive: Redrive) -> dict[str, Any]:
    """A redrive as JSON shows it."""
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(redrive)
    return document


def summary(redrive: Redrive) -> str:
    """A redrive of one broker in one line."""
    counts = (
        ("sent", redrive.sent),
        ("discarded", redrive.discarded),
        ("reopened", redrive.reopened),
        ("refused", redrive.refused),
    )
    parts = [f"{number} {name}" for name, number in counts if number]
    text = f"{redrive.broker_name}: {redrive.state}, {', '.join(parts) or 'nothing'} of "
    text += f"{redrive.planned}"
    if redrive.why:
        text += f"; {redrive.why}"
    if redrive.refused:
        text += f"; why: pocketmq dlq results {redrive.order.group} {redrive.redrive_id}"
    return text
