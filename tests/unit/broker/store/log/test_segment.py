from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.log.segment import (
    ENTRY_SIZE,
    FORMAT_VERSION,
    HEADER_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    LOG_NUMBER_MAX,
    LOG_SIZE_MAX,
    POSITION_BITS,
    Segment,
    is_unfinished,
    log_number_of,
    physical_offset,
    read_segment,
    segment_stem,
)

NUMBERS = st.integers(1, LOG_NUMBER_MAX)
POSITIONS = st.integers(0, 1 << 62)


def segment_at(directory: Path, number: int, position: int, offset: int = 0) -> Segment:
    return Segment(segment_stem(directory, position), number, position, offset, 1_700_000_000_000)


def test_sizes_are_those_of_the_format() -> None:
    assert (HEADER_SIZE, ENTRY_SIZE, FORMAT_VERSION, POSITION_BITS) == (64, 20, 1, 40)


@given(NUMBERS, POSITIONS)
def test_a_physical_offset_is_positive_and_names_its_log(number: int, position: int) -> None:
    offset = physical_offset(number, position)
    assert 0 < offset < 1 << 63
    assert log_number_of(offset) == number


@given(NUMBERS, POSITIONS, st.integers(0, LOG_SIZE_MAX))
def test_positions_are_found_again_however_much_a_queue_took(
    number: int, base: int, distance: int
) -> None:
    segment = segment_at(Path("q"), number, base)
    assert segment.position_of(physical_offset(number, base + distance)) == base + distance


@given(NUMBERS, POSITIONS, st.integers(0, 1 << 62))
def test_headers_are_read_as_they_were_written(number: int, position: int, offset: int) -> None:
    segment = segment_at(Path("/data/queues/T/0"), number, position, offset)
    header = segment.header(LOG_MAGIC)
    assert len(header) == HEADER_SIZE
    assert read_segment(segment.log_path, header) == segment


def test_log_and_index_stand_side_by_side() -> None:
    segment = segment_at(Path("q"), 1, 12345)
    assert segment.log_path == Path("q/00000000000000012345.log")
    assert segment.index_path == Path("q/00000000000000012345.idx")
    assert segment.header(LOG_MAGIC)[8:] != segment.header(INDEX_MAGIC)[8:]  # the checksum


@pytest.mark.parametrize("header", [b"", b"PMQLOG", bytes(64), b"\x7fELF".ljust(64, b"x")])
def test_a_foreign_file_is_named(header: bytes) -> None:
    with pytest.raises(FormatError, match=r"/d/0\.log: it does not begin with the mark"):
        read_segment(Path("/d/0.log"), header)


def test_an_index_is_no_log() -> None:
    segment = segment_at(Path("q"), 1, 0)
    with pytest.raises(FormatError, match="mark"):
        read_segment(segment.log_path, segment.header(INDEX_MAGIC))


@pytest.mark.parametrize("size", [0, 1, 63, 64])
def test_a_header_that_never_came_to_the_disk_is_known(size: int) -> None:
    assert is_unfinished(bytes(size))
    header = segment_at(Path("q"), 1, 0).header(LOG_MAGIC)
    assert is_unfinished(header[:size]) == (size < 64)


def test_another_version_is_named_before_the_checksum_is_looked_at() -> None:
    segment = segment_at(Path("q"), 1, 0)
    header = bytearray(segment.header(LOG_MAGIC))
    header[8:10] = (FORMAT_VERSION + 1).to_bytes(2, "big")
    with pytest.raises(FormatError, match="format version 2, this broker knows 1: run the version"):
        read_segment(segment.log_path, bytes(header))


@pytest.mark.parametrize("at", [10, 12, 19, 20, 27, 28, 36, 44, 47, 48, 51])
def test_any_other_damage_to_a_header_is_found(at: int) -> None:
    segment = segment_at(Path("q"), 7, 1000, 5)
    header = bytearray(segment.header(LOG_MAGIC))
    header[at] ^= 1
    with pytest.raises(FormatError, match="checksum"):
        read_segment(segment.log_path, bytes(header))


def test_a_renamed_segment_is_found() -> None:
    segment = segment_at(Path("q"), 7, 1000)
    with pytest.raises(FormatError, match="begins at position 1000: it was renamed"):
        read_segment(f"{segment_stem(Path('q'), 2000)}.log", segment.header(LOG_MAGIC))
