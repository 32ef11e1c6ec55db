from __future__ import annotations

import pytest

from pocketmq.broker.counters.history import History


def test_a_rate_is_of_one_step_at_least() -> None:
    history = History(60, 10, 1000.0, (0, 0))
    growth = history.growth(1000.0, (5, 1))
    assert growth.amounts == (5, 1)
    assert growth.elapsed_s == 10
    assert growth.per_second(0) == 0.5
    assert history.growth(1020.0, (5, 1)).per_second(0) == 0.25


def test_what_is_older_than_the_span_does_not_count() -> None:
    history = History(60, 10, 1000.0, (0,))
    for second in range(10, 200, 10):
        history.take(1000.0 + second, (second,))
    growth = history.growth(1190.0, (190,))
    assert growth.amounts == (60,)
    assert growth.per_second(0) == pytest.approx(1.0)
    growth = history.growth(1199.0, (199,))
    assert growth.per_second(0) == pytest.approx(1.0), "between two samples it is as true"


def test_shorter_spans_can_be_asked_for() -> None:
    history = History(600, 1, 0.0, (0,))
    for second in range(1, 701):
        history.take(float(second), (second if second <= 690 else 690 + (second - 690) * 5,))
    amounts = (740,)
    assert history.growth(700.0, amounts, 10).per_second(0) == pytest.approx(5.0)
    assert history.growth(700.0, amounts, 60).per_second(0) == pytest.approx(100 / 60)
    assert history.growth(700.0, amounts).per_second(0) == pytest.approx(640 / 600)


def test_what_rests_costs_one_sample_and_counts_nothing() -> None:
    history = History(60, 10, 0.0, (0,))
    history.take(10.0, (7,))
    for second in range(20, 500, 10):
        history.take(float(second), (7,))
    assert len(history._samples) == 1
    assert history.growth(495.0, (7,)) == (60.0, (0,))
    assert history.growth(495.0, (13,)).per_second(0) == pytest.approx(0.1), "in the last minute"


def test_no_time_at_all_counts_as_a_second() -> None:
    history = History(60, 0, 5.0, (0,))
    assert history.growth(5.0, (3,)).per_second(0) == 3
