from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.protocol.strategies import BATCH_ENTRIES

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.batch import (
    ENTRY_OVERHEAD,
    BatchEntry,
    _decode_one_by_one,
    batch_portions,
    decode_batch,
    encode_batch,
)

GOLDEN = bytes.fromhex(
    "0000002f0000000000000000000000030000000568656c6c6f00145741495401747275650254414753015461674102"
)
GOLDEN_ENTRY = BatchEntry(3, b"hello", b"WAIT\x01true\x02TAGS\x01TagA\x02")


def test_writes_and_reads_the_entry_of_the_real_client() -> None:
    assert encode_batch([GOLDEN_ENTRY]) == GOLDEN
    assert decode_batch(GOLDEN + GOLDEN) == [GOLDEN_ENTRY, GOLDEN_ENTRY]
    assert len(GOLDEN) == ENTRY_OVERHEAD + 5 + 20


@given(BATCH_ENTRIES)
def test_round_trip(entries: list[BatchEntry]) -> None:
    assert decode_batch(encode_batch(entries)) == entries


@given(
    body=st.binary(max_size=20),
    properties=st.binary(max_size=20),
    count=st.integers(1, 5),
    at=st.integers(0, 300),
    value=st.integers(0, 255),
)
def test_entries_of_one_size_are_read_like_any_others(
    body: bytes, properties: bytes, count: int, at: int, value: int
) -> None:
    entries = [BatchEntry(index, body, properties) for index in range(count)]
    data = encode_batch(entries)
    assert decode_batch(data) == entries
    damaged = data[:at] + bytes((value,)) + data[at + 1 :]
    assert outcome(decode_batch, damaged) == outcome(_decode_one_by_one, damaged)


@given(
    entries=st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=9), st.binary(max_size=9))),
    repeats=st.integers(1, 4),
    size=st.integers(1, 200),
    cut=st.integers(0, 60),
    damage=st.none() | st.tuples(st.integers(0, 300), st.integers(0, 255)),
)
def test_portions_together_are_the_batch(
    entries: list[tuple[int, bytes, bytes]],
    repeats: int,
    size: int,
    cut: int,
    damage: tuple[int, int] | None,
) -> None:
    data = b"".join(encode_batch([entry] * repeats) for entry in entries)
    data = data[: len(data) - cut]
    if damage is not None:
        at, value = damage
        data = data[:at] + bytes((value,)) + data[at + 1 :]

    def decode_portions(data: bytes) -> list[tuple[int, bytes, bytes]]:
        return [entry for portion in batch_portions(data, size) for entry in portion]

    assert outcome(decode_portions, data) == outcome(decode_batch, data)
    assert all(batch_portions(encode_batch(entries), size)), "no portion is empty"


def test_portions_have_about_the_size_asked_for() -> None:
    alike = encode_batch([(0, b"x" * 78, b"")] * 100)
    assert [len(portion) for portion in batch_portions(alike, 1000)] == [10] * 10
    unlike = encode_batch([(0, b"x" * (77 + n % 2 * 2), b"") for n in range(100)])
    assert [len(portion) for portion in batch_portions(unlike, 1000)] == [10] * 10


def outcome(decode: Callable[[bytes], list[tuple[int, bytes, bytes]]], data: bytes) -> object:
    try:
        return decode(data)
    except ContentError as e:
        return str(e)


def test_no_entries() -> None:
    assert encode_batch([]) == b""
    assert decode_batch(b"") == []


@given(BATCH_ENTRIES)
def test_every_cut_is_found(entries: list[BatchEntry]) -> None:
    data = encode_batch(entries)
    borders = {len(encode_batch(entries[:n])) for n in range(len(entries) + 1)}
    for size in range(len(data)):
        if size in borders:
            continue
        with pytest.raises(ContentError):
            decode_batch(data[:size])


@given(st.binary(max_size=200))
def test_garbage_is_refused(garbage: bytes) -> None:
    try:
        entries = decode_batch(garbage)
    except ContentError:
        return
    assert b"".join(body for _, body, _ in entries) in garbage or len(entries) > 1


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"\x00\x00\x00\x30", "announces 48 bytes"),
        (0, b"\xff\xff\xff\xff", "announces -1 bytes"),
        (16, b"\xff\xff\xff\xff", "a body of -1 bytes"),
        (16, b"\x7f\xff\xff\xff", "a body of 2147483647 bytes"),
        (16, b"\x00\x00\x00\x06", "announces 47 bytes"),
        (25, b"\x00\x15", "announces 47 bytes"),
    ],
)
def test_lengths_that_contradict_each_other_are_named(at: int, value: bytes, reason: str) -> None:
    with pytest.raises(ContentError, match=f"at byte 0 .*{reason}"):
        decode_batch(GOLDEN[:at] + value + GOLDEN[at + len(value) :])
