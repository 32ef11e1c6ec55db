from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.files import PARTS_MAX, Files


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files(3)
    yield files
    files.close()


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_files_are_made_with_the_directories_above(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c"
    files.create(path, b"head")
    files.write(path, 4, b"tail")
    assert files.read(path, 2, 100) == b"adtail"
    assert files.size(path) == 8
    assert files.exists(path)


def test_creating_again_forgets_the_old_content(files: Files, tmp_path: Path) -> None:
    files.create(tmp_path / "f", b"a long content")
    files.create(tmp_path / "f", b"short")
    assert (tmp_path / "f").read_bytes() == b"short"


def test_only_so_many_handles_stay_open(files: Files, tmp_path: Path) -> None:
    before = open_handles()
    paths = [tmp_path / str(index) for index in range(10)]
    for path in paths:
        files.create(path, path.name.encode())
    assert open_handles() == before + 3
    assert [files.read(path, 0, 10) for path in paths] == [p.name.encode() for p in paths]
    assert open_handles() == before + 3
    files.close()
    assert open_handles() == before


def test_truncate_delete_and_set_aside(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    files.create(path, b"0123456789")
    files.truncate(path, 4)
    assert path.read_bytes() == b"0123"
    kept = files.set_aside(path)
    assert (kept.name, kept.read_bytes()) == ("0.log.cut", b"0123")
    assert not files.exists(path)
    files.delete(kept)
    files.delete(kept)
    assert not kept.exists()


def test_a_directory_is_deleted_with_what_is_in_it(files: Files, tmp_path: Path) -> None:
    files.create(tmp_path / "q" / "0.log", b"x")
    (tmp_path / "q" / "0.log.cut").write_bytes(b"y")
    files.delete_directory(tmp_path / "q")
    files.delete_directory(tmp_path / "q")
    assert not (tmp_path / "q").exists()


def test_syncs_need_no_open_handle(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x")
    files.sync(path)
    files.sync_directory(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.sync(tmp_path / "missing")


def test_a_write_goes_on_where_the_system_stopped(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pwrite

    def few(handle: int, data: bytes, position: int) -> int:
        return whole(handle, bytes(data[:3]), position)

    files.create(tmp_path / "f", b"")
    monkeypatch.setattr(os, "pwrite", few)
    files.write(tmp_path / "f", 2, b"0123456789")
    assert (tmp_path / "f").read_bytes() == b"\0\0" + b"0123456789"


@pytest.mark.parametrize("count", [1, 5, PARTS_MAX, 2 * PARTS_MAX + 3])
def test_parts_are_written_one_behind_the_other(files: Files, tmp_path: Path, count: int) -> None:
    parts = [b"%d," % number for number in range(count)]
    files.create(tmp_path / "f", b"head")
    files.write_parts(tmp_path / "f", 4, [memoryview(parts[0]), *parts[1:]])
    assert (tmp_path / "f").read_bytes() == b"head" + b"".join(parts)


def test_a_write_of_parts_goes_on_where_the_system_stopped(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(handle: int, parts: list[bytes], position: int) -> int:
        return os.pwrite(handle, b"".join(parts)[:7], position)

    files.create(tmp_path / "f", b"")
    monkeypatch.setattr(os, "pwritev", few)
    files.write_parts(tmp_path / "f", 2, [b"01234", b"56789", b"ab"])
    assert (tmp_path / "f").read_bytes() == b"\0\0" + b"0123456789ab"


class NotedFiles(Files):
    """Notes which directories were brought to the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.synced.append(path)


def test_a_directory_that_is_made_is_on_the_disk_with_those_above(tmp_path: Path) -> None:
    files = NotedFiles()
    files.make_directory(tmp_path / "a" / "b")
    assert files.synced == [tmp_path, tmp_path / "a"]
    files.make_directory(tmp_path / "a" / "b")
    assert len(files.synced) == 2
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        files.make_directory(tmp_path / "file")
