"""Options that say which dead letters a command means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import time_ms
from pocketmq.protocol.errors import UsageError

if TYPE_CHECKING:
    from pocketmq.protocol.bodies.redrives import LetterSelection

PANEL = "Which dead letters"

GroupArgument = Annotated[str, typer.Argument(help="The consumer group that failed.")]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", rich_help_panel=PANEL, help="Only the message with this id; repeatable."),
]
WhereOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=PANEL, help="Only these: a SQL92 condition over the properties."),
]
ErrorOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=PANEL, help="Only with this text in the last error."),
]
OriginOption = Annotated[
    str | None,
    typer.Option("--topic", rich_help_panel=PANEL, help="Only of this topic."),
]
KeyOption = Annotated[str | None, typer.Option(rich_help_panel=PANEL, help="Only with this key.")]
TagOption = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="Only with this tag: A, or 'A || B'.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=PANEL, help="Dead at this time (ISO 8601) or later."),
]
UntilOption = Annotated[
    str | None, typer.Option(rich_help_panel=PANEL, help="Dead before this time.")
]
AttemptsOption = Annotated[
    int | None,
    typer.Option(min=0, rich_help_panel=PANEL, help="Only with so many attempts or more."),
]
StateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        rich_help_panel=PANEL,
        help="open, redriven, discarded or all; repeatable. By default open.",
        show_default=False,
    ),
]


def selection(
    ids: list[str] | None,
    where: str | None,
    error: str | None,
    topic: str | None,
    key: str | None,
    tag: str | None,
    since: str | None,
    until: str | None,
    attempts: int | None,
    states: list[str] | None,
) -> LetterSelection:
    """Reads the options.

    Raises:
        UsageError: one of them makes no sense.
    """
    from pocketmq.protocol.bodies.redrives import LetterSelection, LetterState

    known = [*LetterState, "all"]
    if wrong := [state for state in states or [] if state not in known]:
        raise UsageError(f"--state {wrong[0]!r} is none of {', '.join(known)}")
    chosen = [LetterState.OPEN] if not states else [
        state for state in LetterState if state in states or "all" in states
    ]  # fmt: skip
    return LetterSelection(
        message_ids=ids or [],
        where=where,
        error=error,
        topic=topic,
        key=key,
        tags=tag,
        since_ms=None if since is None else time_ms("--since", since),
        until_ms=None if until is None else time_ms("--until", until),
        attempts_min=attempts,
        states=chosen,
    )
