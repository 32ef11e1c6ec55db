from __future__ import annotations

import pytest

from pocketmq.runtime.rates import RateWindow


def test_a_new_window_is_empty() -> None:
    window = RateWindow(1000.0)
    assert (window.count(1000.0), window.mean_cost(1000.0), window.per_second(1000.0)) == (0, 0, 0)


def test_the_rate_is_of_the_time_that_the_window_has_seen() -> None:
    window = RateWindow(1000.0)
    window.add(1000.5, 30)
    assert window.per_second(1000.5) == 30, "less than a second counts as one"
    assert window.per_second(1010.0) == 3
    assert window.per_second(1030.0) == 1


def test_what_is_older_than_the_window_is_forgotten() -> None:
    window = RateWindow(0.0)
    window.add(5.0, 10, 2.5)
    window.add(15.0, 20, 1.5)
    assert (window.count(59.9), window.mean_cost(59.9)) == (30, 2.0)
    assert (window.count(60.0), window.mean_cost(60.0)) == (20, 1.5)
    assert window.count(70.0) == 0
    window.add(1e6, 1)
    assert window.count(1e6) == 1


def test_the_rate_of_a_steady_stream_is_its_rate() -> None:
    window = RateWindow(0.0)
    for second in range(300):
        window.add(float(second), 50)
    assert window.per_second(299.9) == pytest.approx(50, rel=0.02)


def test_a_window_may_be_of_an_hour() -> None:
    window = RateWindow(0.0, span_s=3600)
    window.add(1.0, 7)
    assert window.count(3500.0) == 7
    assert window.count(3600.0) == 0
