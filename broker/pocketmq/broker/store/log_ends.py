"""Where the logs of a member end, each and all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.store import MessageStore


class EpochSpan(NamedTuple):
    """What was written in one epoch, in bytes of all logs together."""

    epoch: int
    start: int
    end: int


def end_of(store: MessageStore, number: int) -> int:
    """Returns the position behind the last record of a log.

    Raises:
        StoreError, OSError: the log cannot be read.
    """
    known = store.logs.table.by_number(number)
    assert known is not None
    if known.checkpoint is not None and store.logs.is_at_rest(known):
        return known.checkpoint.position
    queue_log = store.find_log(known.topic, known.queue_id)
    return 0 if queue_log is None else queue_log.written_position


def size_of_all(store: MessageStore) -> int:
    """Returns the bytes that were ever written to the logs that there are, but for damaged ones.

    Members of a set that have the same records have the same number, as with the end of RocketMQ's
    only log; retention does not make it less.
    """
    return sum(ends_of(store).values())


def epoch_spans(store: MessageStore, epochs: LogEpochs) -> list[EpochSpan]:
    """Returns what was written in each epoch, the oldest first.

    An epoch begins where it begins in each log, and at a log's end where it has written nothing.
    """
    ends = ends_of(store)
    known = sorted({start.epoch for number in ends for start in epochs.of(number)})
    starts = [_start_of(epoch, ends, epochs) for epoch in known]
    bounds = pairwise([*starts, sum(ends.values())])
    return [EpochSpan(epoch, *bound) for epoch, bound in zip(known, bounds, strict=True)]


def ends_of(store: MessageStore) -> dict[int, int]:
    """Returns where each log ends that is not damaged, by number."""
    return {
        known.number: end_of(store, known.number)
        for known in store.logs.table
        if store.damaged.get(known.topic, known.queue_id) is None
    }


def _start_of(epoch: int, ends: dict[int, int], epochs: LogEpochs) -> int:
    return sum(
        _first((start.position for start in epochs.of(number) if start.epoch >= epoch), end)
        for number, end in ends.items()
    )


def _first(positions: Iterable[int], otherwise: int) -> int:
    return next(iter(positions), otherwise)
