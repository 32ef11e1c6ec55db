"""Reads points in time from options."""

from __future__ import annotations

from datetime import UTC, datetime

from pocketmq.protocol.errors import UsageError


def timestamp_ms_of(option: str, text: str, otherwise: str = "") -> int:
    """Reads a time in ISO 8601, UTC unless it says otherwise; milliseconds since the epoch.

    Args:
        option: the name of the option, for the error.
        text: the value of the option.
        otherwise: the other forms that the option takes, for the error.

    Raises:
        UsageError: the text is no time, or the time is before 1970.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} is {text!r}: it must be {otherwise}a time such as 2026-01-31T12:00:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    timestamp_ms = round(moment.timestamp() * 1000)
    if timestamp_ms < 0:
        raise UsageError(f"{option} is {text!r}: no message is that old")
    return timestamp_ms
