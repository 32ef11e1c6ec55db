from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.key_file import BLOCK_ITEMS, KeyFile, KeyFileError, read_key_file
from pocketmq.broker.store.log.segment import HEADER_SIZE, Segment, segment_stem

BASE = 1000


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment(segment_stem(tmp_path, 77), 3, 77, BASE, 1)


def filled(
    segment: Segment, chance: random.Random, words: int
) -> tuple[KeyFile, dict[int, set[int]]]:
    """A key file of five runs, and the offsets by word."""
    key_file = KeyFile(Files(), segment)
    offsets: dict[int, set[int]] = {}
    for _ in range(5):
        start = key_file.end_offset
        end = start + chance.randrange(1, 3 * BLOCK_ITEMS)
        items = []
        for offset in range(start, end):
            for _ in range(chance.randrange(3)):
                word = chance.randrange(words) << 20
                items.append(word << 32 | (offset - BASE))
                offsets.setdefault(word, set()).add(offset)
        key_file.append(items, end, 7)
    return key_file, offsets


@pytest.mark.parametrize("words", [1, 3, 4000])
def test_the_offsets_of_a_word_are_found_newest_first(
    segment: Segment, chance: random.Random, words: int
) -> None:
    key_file, offsets = filled(segment, chance, words)
    again = read_key_file(Files(), segment)
    assert again.runs == key_file.runs
    for word, known in offsets.items():
        low, high = sorted(chance.choices(range(BASE - 5, key_file.end_offset + 5), k=2))
        assert list(again.find(word, 0, 1 << 40)) == sorted(known, reverse=True)
        within = sorted((o for o in known if low <= o < high), reverse=True)
        assert list(again.find(word, low, high)) == within
    assert list(again.find(1, 0, 1 << 40)) == []


def test_a_torn_run_is_left_out(segment: Segment, chance: random.Random) -> None:
    key_file, _ = filled(segment, chance, 10)
    data = segment.keys_path.read_bytes()
    for size in (0, 10, HEADER_SIZE, key_file.runs[3].at + 5, key_file.runs[4].end - 1):
        segment.keys_path.write_bytes(data[:size])
        assert read_key_file(Files(), segment).runs == [r for r in key_file.runs if r.end <= size]


def test_a_run_after_a_torn_one_takes_its_place(segment: Segment, chance: random.Random) -> None:
    filled(segment, chance, 10)
    segment.keys_path.write_bytes(segment.keys_path.read_bytes()[:-1])
    again = read_key_file(Files(), segment)
    again.append([5 << 32 | 9000], BASE + 9001, 1)
    last = read_key_file(Files(), segment)
    assert last.runs == again.runs
    assert list(last.find(5, 0, 1 << 40)) == [BASE + 9000]


def test_the_file_of_another_segment_is_not_taken(segment: Segment, chance: random.Random) -> None:
    filled(segment, chance, 10)
    other = segment._replace(created_ms=2)
    assert read_key_file(Files(), other).runs == []


def test_damage_is_an_error_or_changes_nothing(segment: Segment, chance: random.Random) -> None:
    key_file, offsets = filled(segment, chance, 20)
    sound = segment.keys_path.read_bytes()
    for _ in range(200):
        data = bytearray(sound)
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        segment.keys_path.write_bytes(data)
        damaged = read_key_file(Files(), segment)
        assert damaged.runs == key_file.runs[: len(damaged.runs)]
        for word, known in offsets.items():
            with contextlib.suppress(KeyFileError):
                found = list(damaged.find(word, 0, 1 << 40))
                end = damaged.end_offset
                assert found == sorted((o for o in known if o < end), reverse=True)
