"""The first whole commit of a writer and epoch holds, and no other."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.marked import commits
from pocketmq.spark.marked.commits import CommitRecord, Commits, OffsetRanges, merged, records_of

QUEUE = MessageQueue("Orders", "broker-a", 0)
OTHER = MessageQueue("Orders", "broker-b", 3)
ELSEWHERE = MessageQueue("Else", "broker-a", 0)


def of_records(records: Iterable[CommitRecord]) -> Commits:
    found = Commits(["Orders"])
    for record in records:
        found.add(msgspec.json.decode(msgspec.json.encode(record), type=CommitRecord))
    return found


def places_of(found: Commits, queue: MessageQueue) -> dict[str, list[tuple[int, int]]]:
    return {writer: list(intervals) for writer, intervals in found.of_queue(queue).items()}


def test_a_commit_says_where_rows_lie() -> None:
    places: OffsetRanges = {QUEUE: [(5, 7), (0, 3), (3, 5)], OTHER: [(9, 10)], ELSEWHERE: [(0, 1)]}
    found = of_records(records_of("w", 0, places))
    assert places_of(found, QUEUE) == {"w": [(0, 7)]}
    assert places_of(found, OTHER) == {"w": [(9, 10)]}
    assert places_of(found, ELSEWHERE) == {}, "of a topic that is not read"


def test_the_first_run_of_a_job_holds() -> None:
    first, second = (records_of("w", 0, {QUEUE: [r]}) for r in ((0, 3), (3, 6)))
    third = records_of("v", 0, {QUEUE: [(6, 7)]})
    found = of_records(first + second + first + third)
    assert places_of(found, QUEUE) == {"w": [(0, 3)], "v": [(6, 7)]}


def test_each_epoch_of_a_stream_has_its_own_commit() -> None:
    records = [r for epoch in (0, 1, 1, 2) for r in records_of("w", epoch, {QUEUE: [(epoch, 9)]})]
    assert places_of(of_records(records), QUEUE) == {"w": [(0, 9)]}
    found = of_records(
        [*records_of("w", 4, {QUEUE: [(0, 2)]}), *records_of("w", 5, {QUEUE: [(2, 4)]})]
    )
    assert places_of(found, QUEUE) == {"w": [(0, 4)]}


def test_a_run_without_rows_holds_too() -> None:
    records = records_of("w", 0, {}) + records_of("w", 0, {QUEUE: [(0, 3)]})
    assert places_of(of_records(records), QUEUE) == {}


def test_a_long_commit_holds_once_all_its_parts_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "PART_RANGES_MAX", 2)
    pairs = [(10 * i, 10 * i + 1) for i in range(5)]
    *begun, _ = records_of("w", 0, {QUEUE: pairs})
    assert len(begun) == 2
    assert places_of(of_records(begun), QUEUE) == {}
    whole = records_of("w", 0, {QUEUE: [(1, 2), (3, 4), (5, 6)]})
    mixed = [begun[0], whole[0], begun[1], whole[1]]
    assert places_of(of_records(mixed), QUEUE) == {"w": [(1, 2), (3, 4), (5, 6)]}


def test_places_of_tasks_are_put_together() -> None:
    together = merged([{QUEUE: [(0, 1)]}, {}, {QUEUE: [(1, 2)], OTHER: [(0, 4)]}])
    assert together == {QUEUE: [(0, 1), (1, 2)], OTHER: [(0, 4)]}
