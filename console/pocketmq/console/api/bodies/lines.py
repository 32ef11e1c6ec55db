"""Bodies about messages in a file, one on each line."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pocketmq.console.api.bodies.messages import Sent
from pocketmq.console.web.bodies import RequestBody, ResponseBody

LINES_MAX = 10_000
"""Lines of one request."""

LINES_SIZE_MAX = 6 * 1024 * 1024
"""Characters of all lines."""


class SendLinesRequest(RequestBody):
    """Messages to send, one on each line.

    Attributes:
        lines: JSON as `pocketmq tail -f json` writes it; empty lines are left out.
        check_only: only say whether the lines fit.
    """

    lines: Annotated[str, Meta(max_length=LINES_SIZE_MAX)]
    check_only: bool = False


class LineResult(ResponseBody):
    """What became of a line.

    Attributes:
        line: its number, from 1 on.
        sent: the message; null if it was not sent.
        problem: why not; null if the line fits.
    """

    line: int
    sent: Sent | None = None
    problem: str | None = None


class SentLines(ResponseBody):
    """What became of each line.

    Attributes:
        sent, failed: how many lines.
        is_refused: whether nothing was sent because of lines that do not fit.
    """

    sent: int
    failed: int
    is_refused: bool
    lines: list[LineResult]
