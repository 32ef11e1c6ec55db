"""A broker on a simulated disk, crashed behind each of its changes, in every way that a disk may.

    .venv/bin/python -m pytest tests/crash/test_crash_points.py --crash-points=all

A failure names the seed that repeats it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.crash.crash_runs import LOSSES, Explorer

pytestmark = pytest.mark.usefixtures("quiet")

STEPS = 50
FLUSHES = ["SYNC_FLUSH", "ASYNC_FLUSH"]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flush", FLUSHES)
def test_what_was_acknowledged_outlives_a_crash_anywhere(
    tmp_path: Path, seed: int, chance: random.Random, crash_points: int | None, flush: str
) -> None:
    explorer = Explorer(tmp_path, seed, is_sync=flush == "SYNC_FLUSH")
    run = explorer.record(STEPS)
    states = [(at, how) for at in range(len(run.disk.journal) + 1) for how in LOSSES]
    if crash_points is not None:
        states = chance.sample(states, min(crash_points, len(states)))
    explorer.crash_at(run, states)
    assert explorer.states == len(states)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flush", FLUSHES)
def test_crash_after_crash(
    tmp_path: Path, seed: int, chance: random.Random, rounds: int, flush: str
) -> None:
    """Also one while the broker recovers from the one before."""
    for number in range(rounds // 2):
        explorer = Explorer(tmp_path / str(number), seed + number, is_sync=flush == "SYNC_FLUSH")
        run = explorer.record(STEPS // 2)
        for _ in range(3):
            position = chance.randint(0, len(run.disk.journal))
            run = explorer.go_on(run, position, chance.choice(list(LOSSES)), STEPS // 2)
        explorer.crash(run, chance.randint(0, 60), chance.choice(list(LOSSES)))
        for how in LOSSES:
            explorer.crash(run, len(run.disk.journal), how)


def test_a_seed_repeats_a_run(tmp_path: Path, seed: int) -> None:
    first = Explorer(tmp_path / "1", seed, is_sync=True).record(20)
    again = Explorer(tmp_path / "2", seed, is_sync=True).record(20)
    assert first.disk.journal == again.disk.journal
    assert first.book == again.book
