from __future__ import annotations

import random

import pytest

from pocketmq.broker.delay.timer_index import ITEM_MAX, SPLIT_PER_STEP_MAX, TimerIndex
from pocketmq.testing.clock import START_MS

DAY_MS = 86_400_000


def advanced(index: TimerIndex, now_ms: int) -> int:
    """Advances as far as it goes; returns the steps that took."""
    steps = 0
    while not index.advance(now_ms):
        steps += 1
    return steps


def popped(index: TimerIndex, now_ms: int) -> list[tuple[int, int]]:
    """Everything that is due."""
    advanced(index, now_ms)
    out = []
    while (entry := index.pop(now_ms)) is not None:
        out.append(entry)
    return out


def test_everything_comes_at_its_time_and_in_order(chance: random.Random) -> None:
    """Against a sorted list, over delays from a millisecond to months, and jumps of the clock."""
    index, waiting, now, item = TimerIndex(), set[tuple[int, int]](), START_MS, 0
    for _ in range(600):
        for _ in range(chance.randrange(20)):
            entry = (now + round(10 ** chance.uniform(0, 10)), item)
            item += 1
            index.add(*entry)
            waiting.add(entry)
        now += round(10 ** chance.uniform(0, 9)) * chance.choice([1, 1, 1, -1])
        due = sorted(entry for entry in waiting if entry[0] <= now)
        assert popped(index, now) == due
        waiting.difference_update(due)
        assert len(index) == len(waiting)
        next_ms = index.next_ms()
        if waiting:
            assert next_ms is not None
            assert now < next_ms <= min(waiting)[0], "it wakes in time"
        else:
            assert next_ms is None
    assert popped(index, now + 10**11) == sorted(waiting)


def test_waking_when_it_says_misses_nothing(chance: random.Random) -> None:
    index, now = TimerIndex(), START_MS
    due = sorted((now + round(10 ** chance.uniform(0, 9.5)), item) for item in range(300))
    for entry in due:
        index.add(*entry)
    advanced(index, now)
    seen = []
    while (next_ms := index.next_ms()) is not None:
        assert next_ms > now
        now = next_ms
        for entry in popped(index, now):
            assert entry[0] == now, "to the millisecond"
            seen.append(entry)
    assert seen == due


def test_a_step_moves_so_many_entries_at_the_most() -> None:
    index = TimerIndex()
    for item in range(4 * SPLIT_PER_STEP_MAX):
        index.add(START_MS + 3 * DAY_MS, item)
    assert advanced(index, START_MS) == 0
    assert advanced(index, START_MS + 3 * DAY_MS - 5000) == 3 * 4, "days, hours, minutes"
    assert advanced(index, START_MS + 3 * DAY_MS) == 4
    assert popped(index, START_MS + 3 * DAY_MS) == [
        (START_MS + 3 * DAY_MS, item) for item in range(4 * SPLIT_PER_STEP_MAX)
    ]


def test_what_is_added_while_its_bucket_is_taken_apart_is_not_lost() -> None:
    index, due_ms = TimerIndex(), START_MS + 3 * DAY_MS
    for item in range(2 * SPLIT_PER_STEP_MAX):
        index.add(due_ms, item)
    assert not index.advance(due_ms)
    index.add(due_ms, 2 * SPLIT_PER_STEP_MAX)
    assert len(popped(index, due_ms)) == 2 * SPLIT_PER_STEP_MAX + 1


def test_slots_are_counted_as_rocketmq_cuts_them() -> None:
    index = TimerIndex(1000)
    for due_ms in (START_MS + 1, START_MS + 999, START_MS + 1000, START_MS + 1001):
        index.add(due_ms, due_ms & 0xFFFF)
    assert [index.count_near(START_MS + ms) for ms in (1, 1000, 1001, 2000, 2001)] == [
        3, 3, 1, 1, 0,
    ]  # fmt: skip
    assert len(popped(index, START_MS + 1000)) == 3
    assert index.count_near(START_MS + 1000) == 0
    assert TimerIndex().count_near(START_MS) == 0


@pytest.mark.parametrize("item", [-1, ITEM_MAX + 1])
def test_an_item_has_its_limits(item: int) -> None:
    with pytest.raises(AssertionError):
        TimerIndex().add(START_MS, item)
