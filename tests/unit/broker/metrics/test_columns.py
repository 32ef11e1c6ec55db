"""Rows that are written as in the scrape before are written as if there had been none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.metrics.columns import ROWS_MAX, Columns
from pocketmq.runtime.metrics.exposition import (
    Exposition,
    Family,
    Format,
    Kind,
    label_text,
)
from pocketmq.testing.clock import VirtualClock

Row = tuple[int, int, str, str]

WRITTEN = (Family("first", Kind.GAUGE, "One."), Family("second", Kind.GAUGE, "Another."))
NUMBERS = st.integers(0, 3)
ROWS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(NUMBERS, NUMBERS), max_size=6)


def label(group: str, topic: str) -> str:
    return label_text({"group": group, "topic": topic})


async def written(columns: Columns, rows: list[Row], version: int = 0) -> bytes:
    out = Exposition(Format.TEXT, VirtualClock())
    await out.write(columns.write(out, rows, label, version))
    return out.end()


def copies(rows: dict[str, tuple[int, int]], count: int) -> list[Row]:
    """Rows enough for several portions."""
    return [
        (*numbers, f"{topic}{copy}", topic)
        for copy in range(count)
        for topic, numbers in rows.items()
    ]


@given(st.lists(ROWS, min_size=2, max_size=4), st.sampled_from([1, ROWS_MAX // 2]))
async def test_each_scrape_is_as_if_it_were_the_first(
    scrapes: list[dict[str, tuple[int, int]]], count: int
) -> None:
    columns = Columns(WRITTEN)
    for scrape in scrapes:
        rows = copies(scrape, count)
        assert await written(columns, rows) == await written(Columns(WRITTEN), rows)


async def test_labels_are_asked_for_when_rows_or_their_version_change() -> None:
    asked: list[str] = []

    def counted(name: str) -> str:
        asked.append(name)
        return label_text({"name": name})

    columns, out = Columns(WRITTEN[:1]), Exposition(Format.TEXT, VirtualClock())
    for rows, version, expected in (
        ([(1, "a"), (2, "b")], 0, ["a", "b"]),
        ([(1, "a"), (3, "b")], 0, []),
        ([(1, "a"), (3, "b")], 1, ["a", "b"]),
        ([(1, "a"), (3, "c")], 1, ["a", "c"]),
        ([], 1, []),
        ([(1, "a")], 1, ["a"]),
    ):
        asked.clear()
        await out.write(columns.write(out, rows, counted, version))
        assert asked == expected


async def test_two_scrapes_at_a_time_do_not_mix() -> None:
    columns = Columns(WRITTEN)
    one, other = Exposition(Format.TEXT, VirtualClock()), Exposition(Format.TEXT, VirtualClock())
    rows = copies({"a": (1, 2), "b": (3, 4)}, ROWS_MAX)
    changed = copies({"a": (1, 2), "c": (3, 5)}, ROWS_MAX)
    steps, other_steps = columns.write(one, rows, label), columns.write(other, changed, label)
    while None not in (next(steps, None), next(other_steps, None)):
        pass
    assert one.end() == await written(Columns(WRITTEN), rows)
    assert other.end() == await written(Columns(WRITTEN), changed)
    assert await written(columns, rows) == one.end()
