"""Shows a listing once, or again and again: ``--watch 2``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from pocketmq.cli.output import EXIT_INTERRUPTED, Format, note, print_rows, rows_of, table_of
from pocketmq.cli.signals import stop_event
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import SystemClock, within
from pocketmq.runtime.process import run

Rows = Sequence[Mapping[str, Any]]
Read = Callable[[], Coroutine[Any, Any, Rows]]

WatchOption = Annotated[
    float,
    typer.Option(
        "-w", "--watch", min=0, help="Show it again every so many seconds, until Ctrl-C; 0: once."
    ),
]


def show_listing(read: Read, columns: Sequence[str], output: Format, every_s: float) -> Rows:
    """Shows a listing.

    On a terminal a later table replaces the one before; in a pipe it follows, and JSON is one line
    each time.

    Args:
        read: reads the rows.
        columns: the columns in their order.
        output: table or JSON.
        every_s: seconds after which it is shown again; 0 for once.

    Returns:
        The rows, if they were to be shown once.

    Raises:
        typer.Exit: Ctrl-C was pressed.
    """
    if not every_s:
        rows = run(read())
        print_rows(rows, columns, output)
        return rows
    run(_watch(read, columns, output, every_s))
    raise typer.Exit(EXIT_INTERRUPTED)


async def _watch(read: Read, columns: Sequence[str], output: Format, every_s: float) -> None:
    stop, clock = stop_event(), SystemClock()
    with ExitStack() as stack:
        show_again = _printer(columns, output, stack)
        while not stop.is_set():
            try:
                show_again(await read())
            except OperatingError as e:  # a broker that is away for a while does not end it
                note(f"pocketmq: {e}")
            try:
                await within(clock, every_s, asyncio.ensure_future(stop.wait()))
            except TimeoutError:
                continue


def _printer(columns: Sequence[str], output: Format, stack: ExitStack) -> Callable[[Rows], None]:
    if output is Format.JSON:

        def print_line(rows: Rows) -> None:
            sys.stdout.write(json.dumps(rows_of(rows, columns), ensure_ascii=False) + "\n")
            sys.stdout.flush()

        return print_line
    if not sys.stdout.isatty():

        def print_table(rows: Rows) -> None:
            print_rows(rows, columns, output)
            sys.stdout.write("\n")
            sys.stdout.flush()

        return print_table
    from rich.live import Live

    live = stack.enter_context(Live(auto_refresh=False))
    return lambda rows: live.update(table_of(rows, columns), refresh=True)
