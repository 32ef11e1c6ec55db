"""Files that only their owner may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.runtime.private_files import is_readable_by_others, write_private


def test_a_private_file_is_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "x.key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    assert is_readable_by_others(path)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert not is_readable_by_others(path)
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_left_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "x.key").mkdir()
    with pytest.raises(OSError, match=r"x\.key"):
        write_private(tmp_path / "x.key", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["x.key"]
