"""Where a read begins and ends, and how it is cut into tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import DataLossError, OptionError
from pocketmq.spark.reading.offsets import Range, ending, ranges, split, starting

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
ENDS = {Q0: (10, 50), Q1: (0, 0)}


def test_everything_by_default_and_empty_queues_left_out() -> None:
    found = ranges(starting("earliest"), ending("latest"), ENDS, fail_on_data_loss=True)
    assert found == [Range(Q0, 10, 50)]


def test_a_table_of_offsets() -> None:
    start = starting('{"T": {"a": {"0": 20, "1": -2}}}')
    end = ending('{"T": {"a": {"0": 30}}}')
    assert ranges(start, end, ENDS, fail_on_data_loss=True) == [Range(Q0, 20, 30)]


def test_minus_one_and_minus_two_are_the_ends() -> None:
    start, end = starting('{"T":{"a":{"0":-2}}}'), ending('{"T":{"a":{"0":-1}}}')
    assert ranges(start, end, ENDS, fail_on_data_loss=True) == [Range(Q0, 10, 50)]


@pytest.mark.parametrize("table", [(5, 50), (10, 60)])
def test_offsets_that_are_not_there_are_data_loss(table: tuple[int, int]) -> None:
    reason = "messages were deleted" if table[0] < 10 else "the queue ends at 50"
    start = starting(f'{{"T":{{"a":{{"0":{table[0]}}}}}}}')
    end = ending(f'{{"T":{{"a":{{"0":{table[1]}}}}}}}')
    asked = f"offsets {table[0]} to {table[1]}"
    wanted = rf"T@a:0: {asked} .* holds 10 to 50: {reason}.*failOnDataLoss=false"
    with pytest.raises(DataLossError, match=wanted):
        ranges(start, end, ENDS, fail_on_data_loss=True)
    assert ranges(start, end, ENDS, fail_on_data_loss=False) == [Range(Q0, 10, 50)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("latest", "takes 'earliest'"),
        ("{", "cannot be read"),
        ('{"T":{"0":3}}', r'Kafka.s form: .*as in \{"T": \{"broker-a": \{"0": 3\}\}\}'),
        ('{"T":{"a":3}}', r'cannot be read: .*as \{"Orders": \{"broker-a": \{"0": 23\}\}\}'),
        ('{"T":{"a":{"0":-3}}}', "at least 0"),
        ('{"T":{"a":{"x":3}}}', "cannot be read"),
        ('{"U":{"a":{"0":3}}}', "names topic 'U'"),
        ('{"T":{"b":{"0":3}}}', "names broker 'b'"),
        ('{"T":{"a":{"7":3}}}', "names queue 7"),
    ],
)
def test_offsets_that_cannot_be_meant_are_refused(text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        ranges(starting(text), ending("latest"), ENDS, fail_on_data_loss=True)


def test_a_start_behind_the_end_is_refused() -> None:
    start, end = starting('{"T":{"a":{"0":30}}}'), ending('{"T":{"a":{"0":20}}}')
    with pytest.raises(OptionError, match="after 20"):
        ranges(start, end, ENDS, fail_on_data_loss=True)


@given(st.lists(st.integers(1, 1000), max_size=8), st.integers(0, 40))
def test_pieces_cover_the_ranges_without_gaps(sizes: list[int], min_partitions: int) -> None:
    whole = [Range(MessageQueue("T", "a", i), i, i + size) for i, size in enumerate(sizes)]
    pieces = split(whole, min_partitions)
    assert all(p.size > 0 for p in pieces)
    for r in whole:
        at = r.start
        for piece in (p for p in pieces if p.queue == r.queue):
            assert piece.start == at
            at = piece.end
        assert at == r.end
    if sizes and min(sizes) >= 40:
        assert len(pieces) >= min(min_partitions, len(pieces))
        assert abs(len(pieces) - max(min_partitions, len(whole))) <= len(whole)
    assert len(pieces) == max(len(whole), min(min_partitions, sum(sizes)))


@pytest.mark.parametrize("min_partitions", [5, 13])
def test_there_are_at_least_as_many_pieces_as_asked_for(min_partitions: int) -> None:
    whole = [Range(MessageQueue("T", "a", i), 0, 300) for i in range(4)]
    pieces = split(whole, min_partitions)
    assert len(pieces) == min_partitions
    assert max(p.size for p in pieces if p.queue.queue_id == 0) <= 300 // (min_partitions // 4)
