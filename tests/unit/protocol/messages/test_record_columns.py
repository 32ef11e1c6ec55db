"""Parts of many records at once are those that one record after the other has."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.messages.record_columns import RECORD_HEAD, crcs_at, parts_at, put_at
from pocketmq.protocol.messages.records import encode_record

PARTS = st.lists(st.binary(max_size=20), min_size=1, max_size=30)


def placed(parts: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:
    sizes = np.array([len(part) for part in parts], np.int64)
    return b"".join(parts), np.cumsum(sizes) - sizes, sizes


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@given(parts=PARTS | st.lists(st.binary(min_size=7, max_size=7), min_size=1, max_size=9))
def test_crcs_are_those_of_each_part(kind: type, parts: list[bytes]) -> None:
    data, starts, sizes = placed(parts)
    expected = [crc32(part) & 0x7FFFFFFF for part in parts]
    assert crcs_at(kind(data), starts, sizes).tolist() == expected


@given(st.binary(min_size=8, max_size=50), st.integers(1, 8), st.data())
def test_parts_are_slices(data: bytes, size: int, choice: st.DataObject) -> None:
    places = choice.draw(st.lists(st.integers(0, len(data) - size), max_size=9))
    rows = parts_at(data, np.array(places, np.int64), size)
    assert rows.shape == (len(places), size)
    assert [bytes(row) for row in rows] == [data[at : at + size] for at in places]


def test_parts_are_put_where_they_belong() -> None:
    data = bytearray(b"........................")
    put_at(data, np.array([1, 20], np.int64), np.frombuffer(b"abcdEFGH", np.uint8).reshape(2, 4))
    put_at(data, np.array([6, 12], np.int64), np.frombuffer(b"same", np.uint8))
    assert data == b".abcd.same..same....EFGH"


def test_a_head_is_what_stands_before_a_body() -> None:
    fields = {
        "queue_id": 1, "flag": 2, "queue_offset": 3, "physical_offset": 4, "sys_flag": 5,
        "born_timestamp": 6, "store_timestamp": 7, "reconsume_times": 8,
        "prepared_transaction_offset": 9,
    }  # fmt: skip
    record = encode_record(
        topic=b"T", body=b"body", properties=b"p\x01v\x02", born_host=b"bornbbbb",
        store_host=b"storesss", **fields,
    )  # fmt: skip
    (head,) = np.frombuffer(record[: RECORD_HEAD.itemsize], RECORD_HEAD)
    assert {name: int(head[name]) for name in fields} == fields
    assert (bytes(head["born_host"]), bytes(head["store_host"])) == (b"bornbbbb", b"storesss")
    assert (int(head["total"]), int(head["body_size"])) == (len(record), 4)
    assert int(head["body_crc"]) == crc32(b"body") & 0x7FFFFFFF
