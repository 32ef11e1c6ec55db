"""Words for figures."""

from __future__ import annotations

import pytest

from pocketmq.runtime.text import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 topics"), (1, "1 topic"), (2, "2 topics"), (1200, "1,200 topics")]
)
def test_counts(count: int, text: str) -> None:
    assert counted(count, "topic") == text
