"""The metadata that tables are kept in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from support.store.disks import refuse_changes

from pocketmq.broker.store.metadata.metadata import Metadata


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[Metadata]:
    metadata = Metadata(tmp_path / "meta.db")
    yield metadata
    metadata.close()


@pytest.fixture
def refuse_state(metadata: Metadata) -> Callable[[], None]:
    """Lets every later change of the broker's own values fail, and nothing else."""
    return partial(refuse_changes, metadata, "state")


@pytest.fixture
def disk_full(metadata: Metadata) -> Callable[[], None]:
    """Lets every later write of the metadata that needs a new page fail."""

    def fill() -> None:
        database = metadata._db
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count={pages}")

    return fill
