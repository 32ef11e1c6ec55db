"""Reads the option -o of `pocketmq tail` and `record`: where to begin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pocketmq.cli.times import timestamp_ms_of

if TYPE_CHECKING:
    from pocketmq.client.copying.start_point import StartPoint

FORMS = "beginning, end, an offset, -5 for the last five of each queue, or "

_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def start_point(text: str) -> StartPoint:
    """Reads ``beginning``, ``end``, an offset, ``-5`` or a time in ISO 8601.

    Raises:
        UsageError: the text is none of these.
    """
    from pocketmq.client.copying.start_point import BEGINNING, END, StartPoint

    if text in ("beginning", "earliest"):
        return BEGINNING
    if text in ("end", "latest"):
        return END
    if _NUMBER.fullmatch(text):
        return StartPoint(last=-int(text)) if text[0] == "-" else StartPoint(offset=int(text))
    return StartPoint(timestamp_ms=timestamp_ms_of("--offset", text, FORMS))
