"""Findings of the doctor and their severity."""

from __future__ import annotations

from enum import StrEnum

import msgspec

DOCTOR = "doctor"
"""The subject of findings about the examination itself."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Something does not work."""

    WARNING = "warning"
    """Something works, but not for ever or not for everybody."""

    NOTE = "note"
    """Good to know; a cluster with only notes is healthy."""


class Finding(msgspec.Struct, frozen=True):
    """One fault that a check found.

    Attributes:
        check: the name of the check.
        severity: how bad the finding is.
        subject: the name server, broker, topic or group that the finding is about.
        seen: the observation.
        remedy: the step that helps.
    """

    check: str
    severity: Severity
    subject: str
    seen: str
    remedy: str


def unfinished(check: str, subject: str, error: Exception) -> Finding:
    """Makes the finding for a subject that could not be examined."""
    return Finding(
        check,
        Severity.WARNING,
        subject,
        f"this could not be checked: {error}",
        "if a server was just stopped or started, ask again",
    )
