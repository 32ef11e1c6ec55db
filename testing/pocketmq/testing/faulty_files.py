"""The files of a broker whose disk can be full on order."""

from __future__ import annotations

import errno
from pathlib import Path

from pocketmq.broker.store.disk.files import Files


class FaultyFiles(Files):
    """A disk that can be full.

    Attributes:
        fillings: the number of faults by which the disk is full at present.
    """

    fillings = 0

    def write(self, path: Path, position: int, data: bytes | bytearray | memoryview) -> None:
        """Writes as `Files.write`; fails with ENOSPC while the disk is full."""
        if self.fillings > 0:
            raise OSError(errno.ENOSPC, "No space left on device (a fault was ordered)", str(path))
        super().write(path, position, data)
