"""Prints results to standard output, and everything else to standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[
    Format, typer.Option("-o", "--output", help="How the listing is printed.", show_default=True)
]
"""The option that every listing takes."""

PIPE_COLUMNS = 10_000
"""Width of a table in a pipe: wide enough that each row stays one line for grep and awk."""

EXIT_FAILED = 1
"""The command could not be carried out."""

EXIT_INTERRUPTED = 130
"""INT or TERM came before everything was done, as shells report it."""

EXIT_PIPE_CLOSED = 141
"""The reader of standard output went away, as shells report it."""

EXIT_USAGE = 2
"""The command's words, or a file it reads, are wrong."""


def print_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], output: Format, title: str = ""
) -> None:
    """Prints a listing.

    Args:
        rows: one mapping for each line, by column name.
        columns: the columns in their order, for the table and for JSON.
        output: table or JSON.
        title: above the table.
    """
    if output is Format.JSON:
        print_json(rows_of(rows, columns))
        return
    # rich is only imported where a table is drawn: servers start faster without it
    from rich.console import Console

    table = table_of(rows, columns, title)
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)


def rows_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the rows of a listing with its columns, for JSON."""
    return [{column: row.get(column) for column in columns} for row in rows]


def table_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> Table:
    """Makes the table of a listing."""
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        numeric = all(isinstance(row.get(column), (int, float)) for row in rows) and bool(rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if row.get(c) is None else str(row[c]) for c in columns))
    return table


def print_json(value: Any) -> None:
    """Prints a value as JSON, one document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def is_terminal() -> bool:
    """Tells whether standard output is a terminal."""
    return sys.stdout.isatty()


def date(timestamp_ms: int) -> str | None:
    """Formats milliseconds since the epoch as ISO 8601 in UTC; None for 0, which is no time."""
    from datetime import datetime

    if not timestamp_ms:
        return None
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def note(text: str) -> None:
    """Prints a line to standard error."""
    sys.stderr.write(f"{text}\n")


def set_up_logging(verbose: int) -> None:
    """Logs to standard error: warnings only, or more with ``-v`` and ``-vv``."""
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(
        stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
