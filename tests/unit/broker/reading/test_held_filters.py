"""Filters of held pulls."""

from __future__ import annotations

from pocketmq.broker.reading.filters import EVERYTHING, Selection, selection_of
from pocketmq.broker.reading.held_filters import HeldFilters


def sql(text: str) -> Selection:
    return selection_of("SQL92", text, sql_enabled=True)


def test_one_filter_for_each_text() -> None:
    filters = HeldFilters(10)
    first, second = sql("a = 1"), sql("a = 1")
    assert filters.take(first) is first
    assert filters.take(second) is first
    assert filters.length == 5
    filters.give_back(first)
    assert filters.length == 5
    filters.give_back(first)
    assert filters.length == 0
    assert filters.take(second) is second


def test_there_is_room_for_so_much_text() -> None:
    filters = HeldFilters(10)
    assert filters.take(sql("a = 1")) is not None
    assert filters.take(sql("a = 22")) is None
    assert filters.take(sql("a = 2")) is not None
    assert filters.take(sql("b = 2")) is None
    tags = selection_of("TAG", "a || b", sql_enabled=True)
    assert filters.take(tags) is tags
    assert filters.take(EVERYTHING) is EVERYTHING
    filters.give_back(tags)
    assert filters.length == 10
