"""Positions as they lie in a checkpoint, and how a batch is spread over queues."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.streaming.offsets import Position, batch_ranges, spread, unknown_starts

Q0, Q1, Q10 = (MessageQueue("T", "a", i) for i in (0, 1, 10))


def test_a_position_is_what_starting_offsets_takes() -> None:
    assert Position({Q1: 7, Q0: 5}, {}).encode() == {"T": {"a": {"0": 5, "1": 7}}}


offsets = st.dictionaries(
    st.builds(MessageQueue, st.sampled_from(["T", "U"]), st.sampled_from("ab"), st.integers(0, 30)),
    st.integers(0, 2**62),
)


@given(st.builds(Position, offsets, offsets, st.booleans(), st.booleans()))
def test_a_position_comes_back_from_its_text(position: Position) -> None:
    # Spark compares texts: the same position must have the same one, in whatever order it was made.
    text = json.dumps(position.encode())
    found = Position.decode(json.loads(text))
    assert found == position
    backwards = Position(dict(reversed(found.offsets.items())), found.starts, *found[2:])
    assert json.dumps(backwards.encode()) == text


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    start, end = Position({Q0: 5, Q1: 7}, {}), Position({Q0: 9, Q1: 7}, {})
    assert batch_ranges(start, end) == [Range(Q0, 5, 9)]


def test_what_the_end_says_of_its_beginning_counts() -> None:
    # A first batch that is run again after a crash: by now the query would begin elsewhere.
    start = Position({Q0: 50, Q1: 60}, {}, is_first=True)
    end = Position({Q0: 9, Q1: 7, Q10: 3}, {Q0: 5, Q1: 7, Q10: 2})
    assert batch_ranges(start, end) == [Range(Q0, 5, 9), Range(Q10, 2, 3)]


def test_queues_whose_beginning_nobody_said() -> None:
    end = Position({Q0: 9, Q1: 4, Q10: 3}, {Q10: 0})
    assert unknown_starts(Position({Q0: 5}, {}), end) == [Q1]
    assert batch_ranges(Position({Q0: 5}, {}), end) == [Range(Q0, 5, 9), Range(Q10, 0, 3)]


def test_a_batch_is_spread_in_proportion_to_what_waits() -> None:
    assert spread({Q0: 300, Q1: 100}, 40) == {Q0: 30, Q1: 10}
    assert spread({Q0: 300, Q1: 100}, 1000) == {Q0: 300, Q1: 100}
    assert spread({Q0: 1_000_000, Q1: 1}, 10) == {Q0: 9, Q1: 1}
    assert spread({Q0: 5, Q1: 5, Q10: 5}, 2) == {Q0: 1, Q1: 1, Q10: 1}


@given(
    st.dictionaries(
        st.builds(MessageQueue, st.just("T"), st.just("a"), st.integers(0, 50)),
        st.integers(1, 2**40),
        min_size=1,
    ),
    st.integers(1, 10_000),
)
def test_a_batch_takes_what_it_may_from_every_queue(
    backlogs: dict[MessageQueue, int], rows_max: int
) -> None:
    taken = spread(backlogs, rows_max)
    assert taken.keys() == backlogs.keys()
    assert all(1 <= taken[q] <= backlogs[q] for q in backlogs)
    assert sum(taken.values()) == min(sum(backlogs.values()), max(rows_max, len(backlogs)))
