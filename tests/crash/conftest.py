"""Options and fixtures of the crash tests."""

from __future__ import annotations

import pytest

from pocketmq.broker.store.writing import committer


@pytest.fixture(autouse=True)
def few_new_logs_per_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts new logs off to the next commit, so that a crash or an error may come between."""
    monkeypatch.setattr(committer, "NEW_LOGS_PER_COMMIT_MAX", 1)


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


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Mutes the warnings of brokers about crashes and failing disks, which the test expects."""
    caplog.set_level("CRITICAL")
