from __future__ import annotations

import random
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys import key_merge
from pocketmq.broker.store.keys.key_file import KeyFile, SortedRun, read_key_file
from pocketmq.broker.store.keys.key_merge import merge_path, merge_runs
from pocketmq.broker.store.log.segment import Segment, segment_stem


@pytest.mark.parametrize(("runs_max", "left"), [(256, 1), (3, 4)])
def test_merged_runs_hold_what_the_runs_held(
    tmp_path: Path,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    runs_max: int,
    left: int,
) -> None:
    monkeypatch.setattr(key_merge, "MERGED_RUNS_MAX", runs_max)
    files = Files()
    key_file = KeyFile(files, Segment(segment_stem(tmp_path, 0), 3, 0, 50, 1))
    for count in (3000, 1, 0, 700, 512, 513, 9, 1024, 5, 77):
        start = key_file.end_offset
        # Few words with many records each, as tags are, and many with few.
        items = [
            chance.choice([5, chance.randrange(1 << 32)]) << 32 | (start - 50 + n)
            for n in range(count)
        ]
        key_file.append(items, start + max(count, 1), count)
    merged: list[SortedRun] = []
    assert sum(1 for _ in merge_runs(files, key_file, merged)) > 10, "it takes many steps"
    assert len(merged) == left
    files.replace(merge_path(key_file), key_file.segment.keys_path)
    again = read_key_file(files, key_file.segment)
    assert again.runs == merged
    assert (again.end_offset, again.runs[-1].fingerprint) == (key_file.end_offset, 77)
    items = [item for run in merged for item in items_of(again, run)]
    assert sorted(items) == (items if left == 1 else sorted(items))
    assert list(again.find(5, 0, 1 << 40)) == sorted(
        (50 + (item & 0xFFFF_FFFF) for item in items if item >> 32 == 5), reverse=True
    )
    assert len(items) == 3000 + 1 + 700 + 512 + 513 + 9 + 1024 + 5 + 77


def items_of(key_file: KeyFile, run: SortedRun) -> list[int]:
    checksums = key_file.fences(run)[1]
    return [item for n, crc in enumerate(checksums) for item in key_file.block(run, n, crc)]
