from __future__ import annotations

import pytest

from pocketmq.broker.counters.put_times import PutTimes


def test_times_are_distributed_as_rocketmq_does() -> None:
    times = PutTimes()
    for elapsed_ms in (
        0,
        0.9,
        1,
        9,
        10,
        49,
        99,
        199,
        499,
        999,
        1999,
        2999,
        3999,
        4999,
        9999,
        99999,
    ):
        times.add(elapsed_ms / 1000 + 1e-9, 1)
    assert times.distribution() == (
        "[<=0ms]:2 [0~10ms]:2 [10~50ms]:2 [50~100ms]:1 [100~200ms]:1 [200~500ms]:1 [500ms~1s]:1 "
        "[1~2s]:1 [2~3s]:1 [3~4s]:1 [4~5s]:1 [5~10s]:1 [10s~]:1 "
    )
    assert times.max_ms == 99_999


@pytest.mark.parametrize(("share", "expected_ms"), [(0.5, 1), (0.99, 1), (0.995, 20), (1.0, 300)])
def test_percentiles(share: float, expected_ms: int) -> None:
    times = PutTimes()
    times.add(0.0011, 990)
    times.add(0.020, 9)
    times.add(0.300, 1)
    assert times.percentile_ms(share) == expected_ms


def test_only_the_last_two_minutes_are_shown() -> None:
    times = PutTimes()
    assert times.percentile_ms(0.99) == 0
    times.add(0.005, 7)
    times.begin_minute()
    times.add(0.020, 1)
    assert "[0~10ms]:7 [10~50ms]:1 " in times.distribution()
    times.begin_minute()
    assert "[0~10ms]:0 [10~50ms]:1 " in times.distribution()
    assert times.max_ms == 20, "the maximum is of all times"
