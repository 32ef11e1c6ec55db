"""Frames of bodies, byte by byte, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.schemas.errors import BodyError
from pocketmq.schemas.framing import (
    DEPTH_MAX,
    framed,
    message_indexes_bytes,
    split_message_indexes,
    unframed,
)


def test_a_frame_is_a_zero_byte_and_the_id_of_the_schema() -> None:
    assert framed(0x01020304, b"abc") == b"\x00\x01\x02\x03\x04abc"
    assert unframed(b"\x00\x00\x00\x00\x07") == (7, b"")


@pytest.mark.parametrize("body", [b"", b"\x00\x00\x00\x01", b'{"id": 1}'])
def test_other_bodies_have_no_frame(body: bytes) -> None:
    with pytest.raises(BodyError, match="has no frame"):
        unframed(body)


def test_the_first_message_type_is_one_byte() -> None:
    assert message_indexes_bytes([0]) == b"\x00"
    assert message_indexes_bytes([1]) == b"\x02\x02"
    assert message_indexes_bytes([0, 300]) == b"\x04\x00\xd8\x04"


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=DEPTH_MAX), st.binary(max_size=9))
def test_places_of_message_types_are_read_as_they_are_written(
    indexes: list[int], rest: bytes
) -> None:
    assert split_message_indexes(message_indexes_bytes(indexes) + rest) == (tuple(indexes), rest)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_place_or_an_error_of_the_body(payload: bytes) -> None:
    try:
        indexes, rest = split_message_indexes(payload)
    except BodyError:
        return
    assert 1 <= len(indexes) <= DEPTH_MAX
    assert payload.endswith(rest)
