from __future__ import annotations

import pytest

from pocketmq.console.pages.rendering import time_text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (None, "–"),
        (1_764_000_000_000, "2025-11-24 16:00:00.000 UTC"),
        (2**62, f"{2**62} ms"),
        (-(2**62), f"{-(2**62)} ms"),
    ],
)
def test_any_number_may_stand_for_a_time(time_ms: int | None, text: str) -> None:
    assert time_text(time_ms) == text
