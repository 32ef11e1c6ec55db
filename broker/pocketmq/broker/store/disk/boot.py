"""Tells one run of the operating system from the next one.

A process that is killed leaves all that it has written: the system has it in memory, and brings it
to the disk. A machine that stops loses what was not flushed. After a stop that was not clean the
name of the system's run says which of the two it was.
"""

from __future__ import annotations

from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Returns the name of the system's present run; empty where the system has none (macOS)."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
