"""The histories of logs, and up to where two copies of a log are the same."""

from __future__ import annotations

import pytest

from pocketmq.broker.store.metadata import log_epochs
from pocketmq.broker.store.metadata.log_epochs import EpochStart, LogEpochs, common_end
from pocketmq.broker.store.metadata.metadata import Metadata


def history(*starts: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(*start) for start in starts]


@pytest.mark.parametrize(
    ("ours", "our_end", "theirs", "their_end", "end"),
    [
        ([], 100, [], 80, 80),
        ([], 80, [], 100, 80),
        ([(1, 50)], 100, [(1, 50)], 70, 70),
        ([(1, 50)], 100, [], 70, 50),
        ([(1, 50), (2, 90)], 120, [(1, 50)], 100, 90),
        # They were written to at the same positions by leaders of different epochs.
        ([(1, 50), (3, 80)], 120, [(1, 50), (2, 80)], 100, 80),
        # The end of one epoch was cut off here and not there (KIP-279).
        ([(1, 0), (2, 80), (4, 120)], 200, [(1, 0), (3, 100)], 110, 80),
        ([(5, 0)], 10, [(4, 0)], 10, 0),
        # One of them begins where retention had left the other one when it joined.
        ([(1, 0), (2, 80)], 200, [(2, 120)], 150, 150),
        ([(1, 0), (2, 80), (3, 130)], 200, [(2, 120)], 150, 130),
        ([(1, 0), (3, 80)], 200, [(2, 120)], 150, 0),
        # One was repaired.
        ([(1, 0), (2, 80)], 200, [(-77, 0)], 200, 0),
        ([(-5, 0)], 200, [(-77, 0)], 200, 0),
    ],
)
def test_the_common_end(
    ours: list[tuple[int, int]],
    our_end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    end: int,
) -> None:
    one, other = history(*ours), history(*theirs)
    assert common_end(one, our_end, other, their_end) == end
    assert common_end(other, their_end, one, our_end) == end


def test_histories_are_kept_and_cut(metadata: Metadata) -> None:
    epochs = LogEpochs(metadata)
    epochs.begin([(1, 1, 0), (2, 1, 30)])
    epochs.begin([(1, 3, 50)])
    assert (epochs.last(1), epochs.last(2), epochs.last(3)) == (3, 1, 0)
    assert epochs.span_at(1, 10) == (1, 50)
    assert epochs.span_at(1, 50) == (3, None)
    assert epochs.span_at(2, 10) == (0, 30)
    again = LogEpochs(metadata)
    assert list(again.of(1)) == history((1, 0), (3, 50))
    again.cut(1, 50)
    again.forget(2)
    assert list(LogEpochs(metadata).of(1)) == history((1, 0))
    assert list(LogEpochs(metadata).of(2)) == []


def test_histories_are_bounded(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_epochs, "EPOCHS_OF_LOG_MAX", 3)
    epochs = LogEpochs(metadata)
    for epoch in range(1, 6):
        epochs.begin([(1, epoch, 10 * epoch)])
    assert list(epochs.of(1)) == history((3, 30), (4, 40), (5, 50))
    assert list(LogEpochs(metadata).of(1)) == list(epochs.of(1))
    assert common_end(epochs.of(1), 60, history((1, 10)), 20) == 0
