"""What a run takes by what earlier runs did, and what was lost in between."""

from __future__ import annotations

import pytest

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.files.ledger import Ledger, OpenSlice
from pocketmq.spark.jobs.landing.selection import (
    TopicBounds,
    check_not_made_anew,
    deleted_of,
    from_the_first,
    not_done,
    selected_ranges,
)
from pocketmq.spark.jobs.options import check_slices_and_times
from pocketmq.spark.jobs.spans import Spans
from pocketmq.spark.reading.offsets import Range

A, B = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def bounds(
    ends: dict[MessageQueue, tuple[int, int]], **times: dict[MessageQueue, int]
) -> TopicBounds:
    return TopicBounds(ends, times.get("since", {}), times.get("until", {}))


def run(ledger: Ledger, seen: TopicBounds) -> tuple[list[Range], list[Range]]:
    """A run that takes everything it wants."""
    selected = from_the_first(ledger, seen)
    rows = sum(r.size for r in selected.ranges)
    ledger.open_slice = OpenSlice(number=1, ranges=Spans(selected.ranges).table(), rows=rows)
    ledger.finish_slice()
    lost = Spans.of(ledger.lost)
    for r in selected.lost:
        lost.add(r)
    ledger.lost = lost.table()
    return list(selected.ranges), list(selected.lost)


def test_what_retention_took_between_two_runs_is_told_once() -> None:
    ledger = Ledger(job="archive", settings={})
    # What was gone before the first run is nobody's loss.
    assert run(ledger, bounds({A: (5, 20)}, until={A: 10})) == ([Range(A, 5, 10)], [])
    assert run(ledger, bounds({A: (8, 30)}, until={A: 12})) == ([Range(A, 10, 12)], [])
    deleted = [Range(A, 12, 25)]
    assert run(ledger, bounds({A: (25, 40)}, until={A: 30})) == ([Range(A, 25, 30)], deleted)
    assert run(ledger, bounds({A: (25, 40)}, until={A: 30})) == ([], [])
    # A queue that was made since then counts from its beginning.
    lost_of_new = [Range(B, 0, 2)]
    assert run(ledger, bounds({A: (30, 40), B: (2, 6)}, until={A: 30})) == (
        [Range(B, 2, 6)],
        lost_of_new,
    )


def test_what_is_gone_of_some_ranges() -> None:
    ends = {A: (10, 20), B: (0, 5)}
    assert deleted_of([Range(A, 4, 15), Range(B, 0, 5), Range(A, 2, 6)], ends) == [
        Range(A, 4, 10),
        Range(A, 2, 6),
    ]
    assert deleted_of([Range(A, 10, 15)], ends) == []


def test_what_was_lost_is_unreported_until_a_run_has_reported_it() -> None:
    ledger = Ledger(job="archive", settings={}, lost=Spans([Range(A, 0, 2)]).table())
    ledger.book_lost([Range(A, 2, 4), Range(B, 1, 3)])
    assert list(Spans.of(ledger.lost)) == [Range(A, 0, 4), Range(B, 1, 3)]
    assert list(Spans.of(ledger.unreported)) == [Range(A, 2, 4), Range(B, 1, 3)]


def test_a_queue_that_lost_everything() -> None:
    ledger = Ledger(job="archive", settings={})
    assert run(ledger, bounds({A: (0, 4)})) == ([Range(A, 0, 4)], [])
    assert run(ledger, bounds({A: (9, 9)})) == ([], [Range(A, 4, 9)])


def test_offsets_and_times_narrow_each_other() -> None:
    seen = bounds({A: (0, 100), B: (0, 100)}, since={A: 20}, until={A: 60, B: 50})
    table = '{"T": {"broker-a": {"0": 30, "1": 50}}}'
    assert selected_ranges(seen, table, "latest") == [Range(A, 30, 60)]
    ledger = Ledger(job="export", settings={}, done=Spans([Range(A, 40, 50)]).table())
    selected = not_done(ledger, selected_ranges(seen, table, "latest"))
    assert selected.ranges == [Range(A, 30, 40), Range(A, 50, 60)]
    assert (sum(r.size for r in selected.ranges), selected.lost) == (20, [])


def test_a_topic_that_was_made_anew_is_told() -> None:
    ledger = Ledger(job="export", settings={}, done=Spans([Range(A, 0, 50)]).table())
    check_not_made_anew(ledger, {A: (10, 50), B: (0, 0)})
    with pytest.raises(JobError, match="T@broker-a:0 ends at offset 49"):
        check_not_made_anew(ledger, {A: (0, 49)})


def test_a_time_range_ends_after_it_begins() -> None:
    check_slices_and_times(1, None, 1)
    check_slices_and_times(1, 1, 2)
    with pytest.raises(OptionError):
        check_slices_and_times(1, 2, 2)
