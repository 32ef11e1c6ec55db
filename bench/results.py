"""bench/RESULTS.md, put together from sections that each script writes anew."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


def origin() -> str:
    """The words that a section begins with: day, commit of the code, Python and cores."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return (
        f"{date.today().isoformat()}, commit {commit or 'unknown'}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores."
    )


def put_section(name: str, text: str) -> None:
    """Replaces the section of that name, or adds it at the end.

    Marks that Markdown does not show stand around each section.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n{text.strip()}\n{end}\n"
    old = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# Results\n"
    new, replaced = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}\n", lambda _: section, old, flags=re.DOTALL
    )
    RESULTS.write_text(new if replaced else f"{old.rstrip()}\n\n{section}", encoding="utf-8")
