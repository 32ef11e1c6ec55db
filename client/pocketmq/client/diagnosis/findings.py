"""What the doctor finds."""

from __future__ import annotations

from enum import Enum

import msgspec

DOCTOR = "doctor"
"""The subject of what the doctor says of itself."""


class Severity(str, Enum):
    """How bad it is."""

    ERROR = "error"
    """Something does not work."""

    WARNING = "warning"
    """It works, and will not for ever, or not for everybody."""

    NOTE = "note"
    """Good to know; a cluster with nothing else is healthy."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be.

    Attributes:
        check: which check found it.
        severity: how bad it is.
        subject: what it is about: a name server, broker, topic or group.
        seen: what was seen.
        remedy: what helps.
    """

    check: str
    severity: Severity
    subject: str
    seen: str
    remedy: str


def unfinished(check: str, subject: str, error: Exception) -> Finding:
    """What is said of something that could not be looked at."""
    return Finding(
        check,
        Severity.WARNING,
        subject,
        f"this could not be checked: {error}",
        "if a server was just stopped or started, ask again",
    )
