from __future__ import annotations

from pathlib import Path

import pytest
from support.store.repairs import filled
from support.store.stores import (
    RECORD_OVERHEAD,
    damage,
    open_store,
    put,
    queue_directory,
    segment_files,
)

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.mending import survey as survey_module
from pocketmq.broker.store.mending.survey import sound_records, survey_queue
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.testing.clock import VirtualClock

SIZE = RECORD_OVERHEAD + 400


async def test_sound_records_are_found_behind_damage(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the window of the search ends."""
    store = open_store(tmp_path, clock, StoreSettings(segment_size=1 << 20, disk_free_min=0))
    put(store, *[bytes(400)] * 6)
    await store.close()
    (path,) = segment_files(tmp_path)
    for offset in (1, 2, 4):
        damage(path, HEADER_SIZE + offset * SIZE + 100)
    for window in (130, SIZE, 1000, 1 << 20):
        monkeypatch.setattr(survey_module, "READ_SIZE", window)
        (survey,) = survey_queue(read_only_files, queue_directory(tmp_path))
        assert [(run.offset, run.end_offset) for run in survey.runs] == [(0, 1), (3, 4), (5, 6)]
        assert survey.holes == [(SIZE, 2 * SIZE), (4 * SIZE, SIZE)]
        assert survey.records == 3
        assert survey.segment is not None
        offsets = [record.offset for record in sound_records(read_only_files, survey.segment)]
        assert offsets == [0, 3, 5]


async def test_what_looks_like_a_record_of_another_place_is_none(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    directory = await filled(tmp_path / "data", clock)
    path = segment_files(directory)[1]
    content = path.read_bytes()
    # A record whose body holds another one, whole: damage to the outer one must not reveal it.
    inner = content[HEADER_SIZE : HEADER_SIZE + 200]
    damage(path, HEADER_SIZE + 100, inner)
    survey = survey_queue(read_only_files, queue_directory(directory))[1]
    assert [(run.offset, run.end_offset) for run in survey.runs] == [(3, 4)]


async def test_progress_ends_with_all_bytes(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "PROGRESS_RECORDS", 1)
    directory = await filled(tmp_path / "data", clock)
    with segment_files(directory)[2].open("ab") as file:
        file.write(b"rest")
    told: list[int] = []
    survey_queue(read_only_files, queue_directory(directory), told.append)
    assert sum(told) == 5 * SIZE + 4
    assert len(told) >= 5


async def test_a_file_that_cannot_be_read_is_told_of(
    tmp_path: Path, clock: VirtualClock, read_only_files: Files
) -> None:
    directory = await filled(tmp_path / "data", clock)
    path = segment_files(directory)[0]
    path.unlink()
    path.mkdir()
    survey = survey_queue(read_only_files, queue_directory(directory))[0]
    assert survey.header_error.startswith("it cannot be read: ")
    assert survey.remedy.startswith("make it readable for this user")
