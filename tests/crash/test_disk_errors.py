"""A disk that fails while a broker works on it, and then a crash: nothing acknowledged is lost."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from crash.test_crash_points import FLUSHES
from support.crash.crash_runs import LOSSES, Explorer
from support.crash.simulated_disk import Fault

pytestmark = pytest.mark.usefixtures("quiet")

STEPS = 25
LONG_STEPS = 60
"""There is a checkpoint among them."""

UNDER_WAY_MAX = 30
FIRST_OF_START = 300
"""Points of a start and what follows."""


def faults(chance: random.Random, first: int, end: int) -> dict[int, Fault]:
    """One or some errors in a row; a write leaves a part of its data."""
    at = chance.randrange(first, max(end, first + 1))
    fault = Fault(chance.choice([errno.EIO, errno.ENOSPC]), chance.choice([0.0, 0.3, 1.0]))
    return {at + n: fault for n in range(chance.choice([1, 1, 1, 2, 5, 40]))}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flush", FLUSHES)
def test_an_error_and_a_crash_anywhere(
    tmp_path: Path, seed: int, chance: random.Random, rounds: int, flush: str
) -> None:
    """An error while it runs, a crash, another error while it recovers or later, more crashes."""
    for number in range(rounds // 2):
        explorer = Explorer(tmp_path / str(number), seed + number, is_sync=flush == "SYNC_FLUSH")
        sound = explorer.record(STEPS)
        run = explorer.record(STEPS, faults(chance, sound.first, sound.disk.points))
        assert run.disk.hit
        for _ in range(2):
            position = chance.randint(0, len(run.disk.journal))
            how = chance.choice(list(LOSSES))
            run = explorer.go_on(run, position, how, STEPS, faults(chance, 0, FIRST_OF_START))
        for how in LOSSES:
            explorer.crash(run, len(run.disk.journal), how)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flush", FLUSHES)
def test_a_failed_flush_is_never_taken_for_one_that_succeeded(
    tmp_path: Path, seed: int, chance: random.Random, rounds: int, flush: str
) -> None:
    """The system shows what it could not write, calls it clean, and no later flush writes it."""
    for number in range(rounds // 2):
        explorer = Explorer(tmp_path / str(number), seed + number, is_sync=flush == "SYNC_FLUSH")
        kinds = explorer.record(LONG_STEPS).disk.kinds
        syncs = [at for at, kind in enumerate(kinds) if kind == "sync"]
        run = explorer.record(LONG_STEPS, {chance.choice(syncs): Fault(errno.EIO)})
        assert len(run.disk.failed_syncs) == 1
        explorer.crash(run, len(run.disk.journal), "everything")
        # Killed, it finds in the system's memory what the disk has not, and goes on behind it.
        run = explorer.go_on(run, len(run.disk.journal), "kill", STEPS)
        for how in ("everything", "zeros", "nothing"):
            explorer.crash(run, len(run.disk.journal), how)


def test_after_a_failed_flush_nothing_is_taken_until_a_restart(tmp_path: Path, seed: int) -> None:
    explorer = Explorer(tmp_path, seed, is_sync=True)
    kinds = explorer.record(STEPS).disk.kinds
    first = next(at for at, kind in enumerate(kinds) if kind == "sync")
    run = explorer.record(STEPS, {first: Fault(errno.EIO)})
    assert run.failed_reason is not None
    assert "the broker must be restarted after the disk is repaired" in run.failed_reason
    (failed_at,) = run.disk.failed_syncs
    # What was under way in other threads when it failed may still have come to the disk.
    later = [e for e in run.book.entries.values() if e.since > failed_at + UNDER_WAY_MAX]
    assert [entry for entry in later if entry.acked is not None] == []
    assert run.refused > 0
    run = explorer.go_on(run, len(run.disk.journal), "kill", STEPS)
    assert run.failed_reason is None
    assert any(entry.acked is not None for entry in run.book.entries.values())
