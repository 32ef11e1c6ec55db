"""Options that several commands share."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

import typer

from pocketmq.cli.profiles.target import NAMESRV_DEFAULT as NAMESRV_DEFAULT
from pocketmq.cli.profiles.target import NAMESRV_VARIABLE, resolve_namesrv
from pocketmq.protocol.errors import UsageError

NamesrvOption = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar=NAMESRV_VARIABLE,
        help="Name servers, separated by semicolons.",
        callback=resolve_namesrv,
    ),
]
"""The option `--namesrv`; `profiles.target` adds `--profile` to each command that takes it."""

VerboseOption = Annotated[
    int, typer.Option("-v", "--verbose", count=True, help="Log more; twice for everything.")
]

TopicArgument = Annotated[str, typer.Argument(help="The topic's name.")]


_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(option: str, text: str) -> int:
    """Reads a length of time such as 10s, in milliseconds.

    Raises:
        UsageError: the text is no length of time, or 0; the error names the option.
    """
    match = _DURATION.fullmatch(text)
    value = round(float(match[1]) * _UNITS_MS[match[2]]) if match else 0
    if not value:
        raise UsageError(f"{option} {text!r} is no duration: write 10s, 1.5m, 2h, 3d or 250ms")
    return value


def time_ms(option: str, text: str) -> int:
    """Reads a date and time in ISO 8601, local unless it names a zone, as milliseconds.

    Raises:
        UsageError: the text is no time; the error names the option.
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as e:
        raise UsageError(
            f"{option} {text!r} is no time: write 2030-01-31T08:00:00, or with Z or an offset such "
            f"as +01:00 at its end"
        ) from e


def name_value_pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    """Reads the values of a repeatable option of the form name=value.

    Raises:
        UsageError: a value does not have this form; the error names the option.
    """
    out = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {text!r} is not of the form name=value")
        out[name] = value
    return out
