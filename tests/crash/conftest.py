"""Options and fixtures of the crash tests."""

from __future__ import annotations

import pytest

from pocketmq.broker.store.writing import commit


@pytest.fixture(autouse=True)
def few_queues_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some are put off to the next turn, and a crash or an error comes between."""
    monkeypatch.setattr(commit, "BEGUN_PER_TURN_MAX", 1)


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a broker is killed in one test."""
    count: int = request.config.option.crash_rounds
    return count


@pytest.fixture
def crash_points(request: pytest.FixtureRequest) -> int | None:
    """How many crashes of a simulated disk are tried; None for all."""
    count: str = request.config.option.crash_points
    return None if count == "all" else int(count)
