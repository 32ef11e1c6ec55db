from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.mending import aside as aside_module
from pocketmq.broker.store.mending.aside import REPORT_NAME, Aside, copy_bytes


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files()
    yield files
    files.close()


def test_what_is_moved_keeps_its_place_and_nothing_is_overwritten(
    tmp_path: Path, files: Files
) -> None:
    aside = Aside(tmp_path, tmp_path / "aside")
    path = tmp_path / "queues" / "T" / "0.log"
    kept = []
    for content in (b"first", b"second"):
        files.create(path, content)
        kept.append(aside.move(files, path))
        assert not path.exists()
    assert kept == [aside.folder / "queues/T/0.log", aside.folder / "queues/T/0.log.2"]
    assert [k.read_bytes() for k in kept if k] == [b"first", b"second"]
    assert aside.move(files, path) is None


def test_a_part_is_copied_in_pieces(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside_module, "COPY_SIZE", 3)
    aside = Aside(tmp_path, tmp_path / "aside")
    files.create(tmp_path / "a", b"0123456789")
    assert aside.copy_part(files, tmp_path / "a", 2, ".end").read_bytes() == b"23456789"
    copy_bytes(files, tmp_path / "a", 1, 9, tmp_path / "b", b"HEAD")
    assert (tmp_path / "b").read_bytes() == b"HEAD12345678"


def test_the_report_grows(tmp_path: Path) -> None:
    aside = Aside(tmp_path, tmp_path / "aside")
    aside.write_report(["one"])
    aside.write_report(["two", "three"])
    assert (aside.folder / REPORT_NAME).read_text() == "one\ntwo\nthree\n"
