from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.disk.freeing import FREED_ELSEWHERE_SIZE_MIN, STEP_SIZE, Freeing

LARGE = STEP_SIZE * 2 + 1


def sparse(path: Path, size: int) -> Path:
    path.touch()
    os.truncate(path, size)
    return path


def is_open(path: Path) -> bool:
    handles = Path("/proc/self/fd")
    return any(str(path) in str(h.readlink()) for h in handles.iterdir() if h.is_symlink())


async def test_a_large_file_is_gone_at_once_and_its_space_a_little_later(tmp_path: Path) -> None:
    files, path = Files(), sparse(tmp_path / "0.log", LARGE)
    assert files.size(path) == LARGE
    with path.open() as witness:
        files.delete(path)
        assert not path.exists()
        assert not files.exists(path)
        await files.freeing.wait()
        assert os.fstat(witness.fileno()).st_size == 0
    files.close()
    assert not is_open(path)


async def test_a_new_file_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    files, path = Files(), sparse(tmp_path / "0.log", LARGE)
    files.delete(path)
    files.create(path, b"new")
    await files.freeing.wait()
    assert files.read(path, 0, 10) == b"new"
    files.close()


async def test_a_file_with_another_name_keeps_its_content(tmp_path: Path) -> None:
    files, path = Files(), sparse(tmp_path / "0.log", LARGE)
    copy = tmp_path / "copy"
    copy.hardlink_to(path)
    files.delete(path)
    await files.freeing.wait()
    assert copy.stat().st_size == LARGE
    files.close()


async def test_a_small_file_needs_no_thread(tmp_path: Path) -> None:
    freeing, path = Freeing(), sparse(tmp_path / "0.idx", FREED_ELSEWHERE_SIZE_MIN - 1)
    handle = os.open(path, os.O_RDWR)
    freeing.take(handle)
    assert not is_open(path)
    await freeing.wait()
    freeing.close()


async def test_a_file_that_cannot_be_emptied_is_closed_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    freeing, path = Freeing(), sparse(tmp_path / "0.log", LARGE)
    handle = os.open(path, os.O_RDONLY)
    path.unlink()
    with caplog.at_level(logging.WARNING):
        freeing.take(handle)
        await freeing.wait()
    assert "cannot be emptied in steps" in caplog.text
    assert not is_open(path)
    freeing.close()
