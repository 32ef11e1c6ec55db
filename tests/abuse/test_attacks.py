"""What one connection can do to a broker, and to the honest clients beside it.

In the whole run (`make abuse`) each attack is measured: the longest turn of the broker's loop in
CPU time, and the latencies of an honest sender. Otherwise attacks are smaller, and the calls of
functions in a turn are counted, which are the same on every machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.abuse import batches, large_frames, names, pulls, rpcs
from support.abuse.arena import TOLLS, Arena, Attack

pytestmark = pytest.mark.abuse

ATTACKS = [*pulls.ATTACKS, *batches.ATTACKS, *large_frames.ATTACKS, *names.ATTACKS, *rpcs.ATTACKS]

CALLS_PER_TURN_MAX = 100_000
"""Some 20 to 40 ms of work without the counting."""

WORK_MS_MAX = 50.0
HONEST_P99_MS_MAX = 100.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    whole = metafunc.config.getoption("whole_abuse")
    attacks = [attack for attack in ATTACKS if whole or attack.slice is not None]
    metafunc.parametrize("attack", attacks, ids=[attack.name for attack in attacks])


async def test_one_connection_does_not_stop_the_broker(
    attack: Attack, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    whole = pytestconfig.getoption("whole_abuse")
    size = attack.whole if whole else attack.slice
    assert size is not None
    async with Arena(tmp_path / "store", size, is_whole=whole) as arena:
        await attack.strike(arena)
    toll = arena.toll
    assert toll is not None
    pytestconfig.stash.setdefault(TOLLS, []).append((attack.name, toll))
    if toll.calls is not None:
        assert toll.calls <= CALLS_PER_TURN_MAX
    if toll.work_ms is not None:
        assert toll.work_ms <= WORK_MS_MAX
        assert toll.honest_percentile_ms(0.99) <= HONEST_P99_MS_MAX
