from __future__ import annotations

import pytest

from pocketmq.client.explanation.text import date, span


def test_a_date() -> None:
    assert date(1_767_225_599_999) == "2025-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("time_ms", "words"),
    [
        (-5, "less than 1 s"),
        (999, "less than 1 s"),
        (10_000, "10 s"),
        (200_000, "3 min 20 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_a_length_of_time(time_ms: int, words: str) -> None:
    assert span(time_ms) == words
