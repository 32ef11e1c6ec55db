"""A data directory that is checked when its test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.broker.store.stores import assert_sound


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """Where a store goes; the test closes it, and every record and index entry is checked then."""
    directory = tmp_path / "data"
    yield directory
    assert_sound(directory)
