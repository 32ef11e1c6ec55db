from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store.disk.errors import (
    DirectoryError,
    DirectoryInUseError,
    FormatError,
    StoreError,
)
from pocketmq.protocol.errors import OperatingError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DirectoryInUseError(Path("/d"), "12"), ["/d", "process 12", "stop that broker"]),
        (DirectoryInUseError(Path("/d"), ""), ["process unknown"]),
        (DirectoryError(Path("/d"), "Permission denied"), ["/d", "Permission denied", "writable"]),
        (FormatError(Path("/d/x"), "it is odd"), ["/d/x: it is odd"]),
    ],
)
def test_errors_name_place_cause_and_remedy(error: StoreError, words: list[str]) -> None:
    assert isinstance(error, OperatingError)
    assert all(word in str(error) for word in words)
