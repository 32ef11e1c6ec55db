"""Words times for people."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def date(timestamp_ms: int) -> str:
    """Formats milliseconds since the epoch as ISO 8601 in UTC, to the second."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def span(time_ms: int) -> str:
    """Formats a length of time in its two largest units: ``3 min 20 s``."""
    left_ms, parts = max(time_ms, 0), []
    for unit_ms, name in _UNITS:
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "less than 1 s"
