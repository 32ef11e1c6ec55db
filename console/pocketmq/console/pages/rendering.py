"""Renders templates; whatever comes from a cluster is escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from pocketmq.console.pages.links import download_text, query_text
from pocketmq.console.pages.visits import Visit, Visits
from pocketmq.console.web.base_path import BasePath

FOLDER = Path(__file__).parent

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of each page: only the console's own scripts run in it, whatever a message contains."""

SHOWN_SIZE_MAX = 64 * 1024
"""Characters of a body that a page shows."""


class Renderer:
    """Renders the templates of the console.

    Args:
        base: the path before all links of the answer that is being made.
        may_write: whether pages show forms that change something.
        links: paths and names of further pages in the navigation.
        templates: the folder of further templates; None for none.

    Attributes:
        base: the same.
        visits: the browsers that fill in forms.
    """

    def __init__(
        self,
        base: BasePath,
        *,
        may_write: bool,
        links: Sequence[tuple[str, str]] = (),
        templates: Path | None = None,
    ) -> None:
        folders = [FOLDER / "templates", *([] if templates is None else [templates])]
        self.base, self.visits = base, Visits(base)
        self._environment = Environment(
            loader=FileSystemLoader(folders),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(base=base, may_write=may_write, links=tuple(links))
        self._environment.filters.update(
            time=time_text, count=count_text, rate=rate_text, share=share_text, path=path_text,
            size=size_text, duration=duration_text, link=query_text, download=download_text,
        )  # fmt: skip

    def page(
        self,
        template: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
        *,
        visit: Visit | None = None,
        **given: object,
    ) -> HTMLResponse:
        """Renders a page.

        Args:
            template: the name of the template.
            status: the HTTP status.
            headers: beside those of each page.
            visit: for pages with forms, and to show what a form has done.
            given: to the template.
        """
        text = self._environment.get_template(template).render(visit=visit, **given)
        answer = HTMLResponse(text, status, {**HEADERS, **(headers or {})})
        if visit is not None:
            visit.end(answer)
        return answer


def time_text(time_ms: int | None) -> str:
    """A time in milliseconds since the epoch, in UTC; a dash for none."""
    if not time_ms:
        return "–"
    try:
        text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):  # a client may send any number as a time
        return f"{time_ms} ms"
    return text.replace("+00:00", " UTC")


def count_text(number: int | None) -> str:
    """A number with its thousands apart; a dash for none."""
    return "–" if number is None else f"{number:,}".replace(",", "\u202f")


def rate_text(rate: float | None) -> str:
    """Messages a second; a dash for an unknown rate."""
    return "–" if rate is None else f"{rate:,.1f}".replace(",", "\u202f")


def share_text(share: float | None) -> str:
    """A share from 0 to 1, in percent; a dash for an unknown one."""
    return "–" if share is None else f"{share:.0%}"


def size_text(size: int | None) -> str:
    """Bytes, in the largest unit of which there is one; a dash for an unknown number."""
    if size is None:
        return "–"
    if size < 1000:
        return f"{size} B"
    amount, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"


def duration_text(duration_ms: int | None) -> str:
    """A length of time in its two largest units; a dash for none."""
    if duration_ms is None:
        return "–"
    seconds = duration_ms // 1000
    if seconds < 1:
        return f"{duration_ms} ms"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def path_text(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def body_text(body: str) -> str:
    """A body as a page shows it: JSON is laid out, and what is long is cut."""
    try:
        text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = body
    if len(text) > SHOWN_SIZE_MAX:
        return f"{text[:SHOWN_SIZE_MAX]}\n… {len(text) - SHOWN_SIZE_MAX} characters more"
    return text
