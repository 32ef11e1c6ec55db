"""Options of the commands that send messages from a stream."""

from __future__ import annotations

from typing import Annotated

import typer

QueueOption = Annotated[
    str | None,
    typer.Option("-q", "--queue", help="Send to this queue: BROKER:ID or, with one broker, ID."),
]
KeepQueueOption = Annotated[
    bool,
    typer.Option(
        "--keep-queue", help="Refuse messages whose broker and queue the topic does not have."
    ),
]
KeepIdsOption = Annotated[
    bool, typer.Option("--keep-ids", help="Messages keep their ids instead of getting new ones.")
]
KeepGoingOption = Annotated[
    bool, typer.Option("--keep-going", help="Name what cannot be sent, and send the rest.")
]
