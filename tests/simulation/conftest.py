from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def simulations(request: pytest.FixtureRequest) -> int:
    """How many simulations are run."""
    count: int = request.config.getoption("--simulations")
    return count


@pytest.fixture
def quiet() -> Iterator[None]:
    """What servers log of the faults would only hide what matters."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
