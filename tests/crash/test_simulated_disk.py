"""What the simulated disk leaves is what a disk would leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.crash.disk_losses import Everything, Loss
from support.crash.simulated_disk import SimulatedDisk

from pocketmq.broker.store.metadata.metadata import Metadata


@pytest.mark.parametrize("loss", [Loss(), Everything()])
def test_a_database_that_was_closed_keeps_all_its_transactions(tmp_path: Path, loss: Loss) -> None:
    """SQLite moves its log file into the database then: so does a start that fails."""
    root = tmp_path / "a"
    root.mkdir()
    disk = SimulatedDisk(root)
    metadata = Metadata(root / "meta.db", disk)
    metadata.set_state("key", "value")
    metadata.close()
    disk.cut_power(root / "meta.db")
    disk.left_by(disk.position, loss).make(tmp_path / "b")
    left = Metadata(tmp_path / "b" / "meta.db")
    assert left.state("key") == "value"
    left.close()
