"""Draws PocketMQ beside RocketMQ from the figures of bench/RESULTS.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from drawing import Drawing, Point

RESULTS = Path(__file__).parents[2] / "bench" / "RESULTS.md"
SECTION = re.compile(r"<!-- load: begin -->\n(.*?)<!-- load: end -->", re.DOTALL)
MEASURED = re.compile(r"^(\d{4}-\d\d-\d\d), commit (\w+)", re.MULTILINE)

GROUPS = (
    (
        "Messages a second: more is better",
        (
            ("64 synchronous senders, rate", "64 senders"),
            ("1 synchronous sender, rate", "1 sender"),
            ("batches of 16, rate", "batches of 16"),
            ("sending while consuming, sent", "sending while consuming"),
            ("SYNC_FLUSH, 64 synchronous senders, rate", "64 senders, synchronous flush"),
        ),
    ),
    (
        "What it takes: less is better",
        (
            ("64 senders, server CPU a message", "CPU a message, 64 senders"),
            ("1 sender, server CPU a message", "CPU a message, 1 sender"),
            ("memory (PSS)", "memory"),
            ("start of the cluster", "start"),
        ),
    ),
)
"""Headings; the rows of the table under each, and what the picture calls them."""

WIDTH = 960
BARS_LEFT, BARS_WIDTH = 270, 520
ROW_HEIGHT, BAR_HEIGHT = 46, 16


class Row(NamedTuple):
    """A row of the table: figures with their units."""

    ours: str
    theirs: str
    ratio: str


def picture() -> str:
    """The SVG document."""
    section = SECTION.search(RESULTS.read_text(encoding="utf-8"))
    measured = section and MEASURED.search(section[1])
    if not section or not measured:
        raise LookupError(f"{RESULTS} has no figures beside RocketMQ with a day and a commit")
    rows = _rows(section[1])
    count = sum(len(lines) for _, lines in GROUPS)
    height = 100 + count * ROW_HEIGHT + len(GROUPS) * 38
    drawing = Drawing(WIDTH, height, "PocketMQ beside RocketMQ 5.5.0: rates, CPU, memory, start")
    _legend(drawing)
    top = 64.0
    for heading, lines in GROUPS:
        drawing.text(Point(24, top + 12), heading, "title", anchor="start")
        top += 32
        for name, words in lines:
            _bars(drawing, top, words, rows[name])
            top += ROW_HEIGHT
        top += 6
    source = f"bench/RESULTS.md: {measured[1]}, commit {measured[2]}, 2 cores, one broker"
    drawing.text(Point(24, height - 16), source, "note", anchor="start")
    return drawing.svg()


def _rows(section: str) -> dict[str, Row]:
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return {row[0]: Row(row[1], row[2], row[3]) for row in cells if len(row) >= 4}


def _legend(drawing: Drawing) -> None:
    for left, kind, name in ((24, "ours", "PocketMQ"), (130, "theirs", "RocketMQ 5.5.0")):
        drawing.box(Point(left, 24), 14, 14, kind, radius=2)
        drawing.text(Point(left + 22, 36), name, "note", anchor="start")


def _bars(drawing: Drawing, top: float, words: str, row: Row) -> None:
    drawing.text(Point(BARS_LEFT - 16, top + 21), words, "note", anchor="end")
    drawing.text(Point(WIDTH - 24, top + 21), row.ratio, "name", anchor="end")
    longest = max(_number(row.ours), _number(row.theirs))
    for offset, kind, value in ((0, "ours", row.ours), (BAR_HEIGHT + 2, "theirs", row.theirs)):
        length = max(2.0, _number(value) / longest * (BARS_WIDTH - 110))
        drawing.box(Point(BARS_LEFT, top + offset), length, BAR_HEIGHT, kind, radius=2)
        at = Point(BARS_LEFT + length + 8, top + offset + 12)
        drawing.text(at, value, "note", anchor="start")


def _number(value: str) -> float:
    return float(value.split()[0].replace(",", ""))
