"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from pocketmq.protocol.errors import UsageError

NamesrvOption = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        help="Name servers, separated by semicolons.",
    ),
]
NAMESRV_DEFAULT = "127.0.0.1:9876"

VerboseOption = Annotated[
    int, typer.Option("-v", "--verbose", count=True, help="Log more; twice for everything.")
]

TopicArgument = Annotated[str, typer.Argument(help="The topic's name.")]


def name_value_pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    """What a repeatable option of the form name=value was given.

    Raises:
        UsageError: one is not of that form; the error names the option.
    """
    out = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {text!r} is not of the form name=value")
        out[name] = value
    return out
