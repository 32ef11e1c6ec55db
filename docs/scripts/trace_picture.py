"""Draws a recorded trace: Java sends, Python fails twice, and the dead letter is handled.

`record_trace.py` recorded the spans; this draws what stands in ``trace.json``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from drawing import Drawing, Point

RECORDED = Path(__file__).with_name("trace.json")
WIDTH, TOP, STEP = 960, 96, 62
LEFT, RIGHT = 300, WIDTH - 170
BAR_HEIGHT, BAR_MIN = 22, 5


def picture() -> str:
    """The SVG document."""
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))
    height = TOP + len(rows) * STEP + 24
    drawing = Drawing(
        WIDTH,
        height,
        "One trace: a Java producer sends, a Python consumer fails to handle the message and its "
        "retry, and another one handles the dead letter; each is a child of what Java sent",
    )
    drawing.text(Point(24, 32), "One trace, as OpenTelemetry's SDKs recorded it", "title", "start")
    end_s = math.ceil(max(row["end_ms"] for row in rows) / 1000)
    _axis(drawing, end_s, height)
    places = {row["span"]: index for index, row in enumerate(rows)}
    for index, row in enumerate(rows):
        if row["parent"] in places:
            _from_parent(drawing, rows, places[row["parent"]], index, end_s)
    for index, row in enumerate(rows):
        _row(drawing, row, index, end_s)
    return drawing.svg()


def _x(milliseconds: float, end_s: int) -> float:
    return LEFT + milliseconds / 1000 / end_s * (RIGHT - LEFT)


def _axis(drawing: Drawing, end_s: int, height: float) -> None:
    step = max(1, end_s // 6)
    for second in range(0, end_s + 1, step):
        x = _x(second * 1000, end_s)
        drawing.text(Point(x, 64), f"{second} s", "note")
        drawing.line(Point(x, 72), Point(x, height - 16), "grid")


def _from_parent(
    drawing: Drawing, rows: list[dict[str, Any]], parent: int, child: int, end_s: int
) -> None:
    """Leads from the parent's bar down to the child's, a little beside the other ones."""
    x = _x(rows[parent]["begin_ms"], end_s) - 6 - 5 * child
    start, end = (TOP + index * STEP + BAR_HEIGHT / 2 for index in (parent, child))
    drawing.line(Point(x, start), Point(_x(rows[parent]["begin_ms"], end_s), start), "asks")
    drawing.line(Point(x, start), Point(x, end), "asks")
    drawing.arrow(Point(x, end), Point(_x(rows[child]["begin_ms"], end_s) - 2, end), "asks")


def _row(drawing: Drawing, row: dict[str, Any], index: int, end_s: int) -> None:
    top = TOP + index * STEP
    begin, end = _x(row["begin_ms"], end_s), _x(row["end_ms"], end_s)
    drawing.text(Point(24, top + 10), row["service"], "name", "start")
    drawing.text(Point(24, top + 28), f"{row['name']}, {row['kind']}", "note", "start")
    kind = "failed" if row["error"] else "ours"
    drawing.box(Point(begin, top), max(end - begin, BAR_MIN), BAR_HEIGHT, kind, radius=3)
    if "%DLQ%" in row["name"]:
        drawing.text(Point(LEFT + 16, top + 6), "given up by the broker", "note", "start")
    elif row["retries"]:
        drawing.text(Point(LEFT + 16, top + 6), "given again by the broker", "note", "start")
    words = f"{row['end_ms'] - row['begin_ms']:.0f} ms"
    if row["retries"] and "%DLQ%" not in row["name"]:
        words += f", retry {row['retries']}"
    if row["error"]:
        words += f", {row['error']}"
    drawing.text(Point(max(end, begin + BAR_MIN) + 8, top + 16), words, "note", "start")
