"""Options and fixtures of the crash tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a broker is killed in one test."""
    count: int = request.config.option.crash_rounds
    return count
