"""Knows which leader of a broker set wrote which part of a log.

Leaders are counted by epochs. A log's history is a list of (epoch, position at which the epoch
begins in this log); what was written before the first entry is of epoch 0. One epoch has one
leader, so two members whose logs have an epoch in common have the same bytes up to the end of that
epoch in either log (Kafka's KIP-101 and KIP-279; RocketMQ compares lists of whole brokers). Where
an epoch begins may differ: a member that joined late begins a log where retention had left the
leader.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pocketmq.broker.store.metadata.metadata import Metadata

EPOCHS_OF_LOG_MAX = 64
"""Epochs that are kept of one log; a member that has none of them in common copies the log anew."""


MENDED_EPOCH_BITS = 60


def mended_epoch() -> int:
    """Returns an epoch for a log that was repaired: no other copy of the log has it."""
    return -1 - secrets.randbits(MENDED_EPOCH_BITS)


class EpochStart(NamedTuple):
    """Where the records of an epoch begin in a log."""

    epoch: int
    position: int


_FIRST = EpochStart(0, 0)


def common_end(
    ours: Sequence[EpochStart], our_end: int, theirs: Sequence[EpochStart], their_end: int
) -> int:
    """Returns up to which position two copies of a log are the same.

    Args:
        ours, our_end: the history of one of them and its end.
        theirs, their_end: of the other one.
    """
    ours, theirs = _whole(ours), _whole(theirs)
    places = {start.epoch: at for at, start in enumerate(theirs)}
    for at in range(len(ours) - 1, -1, -1):
        other = places.get(ours[at].epoch)
        if other is not None:
            return min(_end_of(ours, at, our_end), _end_of(theirs, other, their_end))
    return 0


def span_in(history: Iterable[tuple[int, int]], position: int) -> tuple[int, int | None]:
    """Returns the epoch of the record at a position of a log, and where the next one begins.

    Args:
        history: (epoch, position) of the log, the oldest epoch first.
        position: of the record.
    """
    epoch = 0
    for begun, begin in history:
        if begin > position:
            return epoch, begin
        epoch = begun
    return epoch, None


def _whole(history: Sequence[EpochStart]) -> Sequence[EpochStart]:
    """The history with epoch 0, unless its beginning is not kept any more."""
    if len(history) >= EPOCHS_OF_LOG_MAX or (history and not history[0].position):
        return history
    return (_FIRST, *history)


def _end_of(history: Sequence[EpochStart], at: int, end: int) -> int:
    return history[at + 1].position if at + 1 < len(history) else end


class LogEpochs:
    """The histories of all logs of a data directory.

    Args:
        metadata: where they are kept.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._histories: dict[int, list[EpochStart]] = {}
        for number, epoch, position in metadata.log_epochs():
            self._histories.setdefault(number, []).append(EpochStart(epoch, position))

    def of(self, number: int) -> Sequence[EpochStart]:
        """Returns the history of a log, the oldest epoch first."""
        return self._histories.get(number, ())

    def last(self, number: int) -> int:
        """Returns the epoch of a log's last records; 0 before the first leader of a set."""
        history = self._histories.get(number)
        return history[-1].epoch if history else 0

    def span_at(self, number: int, position: int) -> tuple[int, int | None]:
        """Returns the epoch of the record at a position, and where the next one begins, if any."""
        return span_in(self._histories.get(number, ()), position)

    def begin(self, starts: Iterable[tuple[int, int, int]]) -> None:
        """Notes durably where epochs begin in logs, before anything of them is written.

        A power cut that took the note and left the records would make them another epoch's.

        Args:
            starts: (number of the log, epoch, position) rows.

        Raises:
            WriteFailedError: nothing was changed.
        """
        rows = list(starts)
        self._metadata.save_log_epochs(rows, durably=True)
        for number, epoch, position in rows:
            history = self._histories.setdefault(number, [])
            history.append(EpochStart(epoch, position))
            if len(history) > EPOCHS_OF_LOG_MAX:
                gone = history.pop(0)
                self._metadata.remove_log_epoch(number, gone.epoch)

    def cut(self, number: int, position: int) -> None:
        """Forgets the epochs that begin at or behind a position: the log was cut there.

        Raises:
            WriteFailedError: nothing was changed.
        """
        history = self._histories.get(number)
        if history is None:
            return
        kept = [start for start in history if start.position < position]
        for gone in history[len(kept) :]:
            self._metadata.remove_log_epoch(number, gone.epoch)
        self._histories[number] = kept

    def forget(self, number: int) -> None:
        """Forgets a log that was deleted.

        Raises:
            WriteFailedError: nothing was changed.
        """
        self.cut(number, 0)
        self._histories.pop(number, None)
