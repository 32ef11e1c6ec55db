"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
