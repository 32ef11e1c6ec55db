"""bench/RESULTS.md, put together from sections that each script writes anew."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"


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
