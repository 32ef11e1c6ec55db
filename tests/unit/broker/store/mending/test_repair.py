from __future__ import annotations

from pathlib import Path

import pytest
from support.store.repairs import BODIES, contents, filled, left, repaired
from support.store.stores import damage, queue_directory, segment_files

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.mending.aside import REPORT_NAME, Aside
from pocketmq.broker.store.mending.check import check_directory
from pocketmq.broker.store.mending.repair import repair_directory
from pocketmq.testing.clock import VirtualClock


async def test_a_sound_directory_is_left_as_it_is(tmp_path: Path, clock: VirtualClock) -> None:
    directory = await filled(tmp_path / "data", clock)
    before = contents(directory)
    report = repaired(directory)
    assert report.steps == []
    assert contents(directory) == before
    assert not report.folder.exists()


async def test_the_report_says_what_was_planned_and_done(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    damage(segment_files(directory)[1], HEADER_SIZE + 100)
    report = repaired(directory)
    lines = (report.folder / REPORT_NAME).read_text().splitlines()
    assert lines == [f"planned: {s}" for s in report.steps] + [f"done: {s}" for s in report.steps]


async def test_a_repair_that_was_interrupted_is_run_again(
    tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stops, the next one ends with a sound directory, and nothing is gone."""
    move = Aside.move
    for moves in range(4):
        directory = await filled(tmp_path / str(moves), clock)
        segment_files(directory)[1].unlink()
        done = 0

        def counted(self: Aside, files: Files, path: Path, limit: int = moves) -> Path | None:
            nonlocal done
            if done == limit:
                raise OSError("the power is gone")
            done += 1
            return move(self, files, path)

        with monkeypatch.context() as patch:
            patch.setattr(Aside, "move", counted)
            with pytest.raises(OSError, match="the power is gone"):
                repair_directory(directory, directory / "first", dry_run=False)
        repaired(directory)
        found = await left(directory, clock)
        assert found == BODIES[4:]
        kept = b"".join(contents(directory).values())
        assert all(body in kept for body in BODIES[:2] + BODIES[4:])


async def test_a_gap_that_was_not_finished_is_made_by_the_next_repair(
    tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Files.sync
    for syncs in range(3):
        directory = await filled(tmp_path / str(syncs), clock)
        damage(segment_files(directory)[1], HEADER_SIZE + 100)
        left_syncs = syncs

        def counted(self: Files, path: Path) -> None:
            nonlocal left_syncs
            if not left_syncs:
                raise OSError("the power is gone")
            left_syncs -= 1
            sync(self, path)

        with monkeypatch.context() as patch:
            patch.setattr(Files, "sync", counted)
            with pytest.raises(OSError, match="the power is gone"):
                repair_directory(directory, directory / "first", dry_run=False)
        repair_directory(directory, directory / "second", dry_run=False)
        assert check_directory(directory).problems == []
        assert await left(directory, clock) == BODIES[:2] + BODIES[3:]


async def test_what_an_interrupted_repair_was_writing_is_not_taken_for_a_log(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    (queue_directory(directory) / "00000000000000000497.new").write_bytes(b"half")
    assert repaired(directory).steps == []
    assert await left(directory, clock) == BODIES
