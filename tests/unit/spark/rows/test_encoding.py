"""Vectorised encoding is exact: byte for byte what the protocol's own encoders give."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.client.instance.identity import UniqueKeys
from pocketmq.protocol.messages import batch, records
from pocketmq.protocol.messages import properties as props
from pocketmq.spark.errors import RowError
from pocketmq.spark.rows.encoding import (
    UniqueKeyBlocks,
    chunk_bounds,
    encode_entries,
    encode_records,
    with_queue_id,
)
from pocketmq.spark.rows.rows import Rows

NOW_MS = 1_700_000_000_123
BORN_HOST = bytes((10, 1, 2, 3, 0, 0, 0x30, 0x39))
TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12)
ROW = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=300),
        "keys": st.none() | TEXT,
        "tags": st.none() | TEXT,
        "sharding_keys": st.none() | TEXT,
        "properties": st.none() | st.dictionaries(TEXT.map("x".__add__), st.none() | TEXT),
        "queue_id": st.integers(0, 2**31 - 1),
    }
)
Row = dict[str, Any]


def key_block(rows: int) -> Any:
    return UniqueKeyBlocks(UniqueKeys(lambda: NOW_MS, Random(7)).next()).draw(rows)


def rows_of(rows: list[Row], lead: int = 0) -> Rows:
    """The rows as Arrow columns; with `lead`, as slices that begin so many rows into an array."""

    def column(name: str, kind: Any) -> Any:
        array = pa.array([rows[0][name]] * lead + [row[name] for row in rows], kind)
        return array.slice(lead)

    return Rows(
        body=column("body", pa.binary()),
        keys=column("keys", pa.string()),
        tags=column("tags", pa.string()),
        sharding_keys=column("sharding_keys", pa.string()),
        properties=pa.array(
            [[]] * lead
            + [None if r["properties"] is None else list(r["properties"].items()) for r in rows],
            pa.map_(pa.string(), pa.string()),
        ).slice(lead),
    )


def properties_of(row: Row, unique_key: str) -> bytes:
    pairs = {props.UNIQ_KEY: unique_key}
    named = {props.KEYS: "keys", props.TAGS: "tags", props.SHARDING_KEY: "sharding_keys"}
    pairs |= {name: row[column] for name, column in named.items() if row[column]}
    pairs |= {k: v for k, v in (row["properties"] or {}).items() if v}
    return props.encode_checked(pairs)


@settings(deadline=None)
@given(
    st.lists(ROW, min_size=1, max_size=20),
    st.sampled_from(["T", "t" * 127, "%DLQ%" + "g" * 200]),
    st.integers(0, 3),
)
def test_records_are_those_of_encode_record(rows: list[Row], topic: str, lead: int) -> None:
    keys = key_block(len(rows))
    encoded = encode_records(
        rows_of(rows, lead),
        topic=topic.encode(),
        queue_ids=np.array([r["queue_id"] for r in rows], np.int32),
        born_timestamp=NOW_MS,
        born_host=BORN_HOST,
        unique_keys=keys,
    )
    expected = [
        records.encode_record(
            topic=topic.encode(),
            queue_id=row["queue_id"],
            flag=0,
            queue_offset=0,
            physical_offset=0,
            sys_flag=0,
            born_timestamp=NOW_MS,
            born_host=BORN_HOST,
            store_timestamp=0,
            store_host=bytes(8),
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=row["body"],
            properties=properties_of(row, bytes(key).decode()),
        )
        for row, key in zip(rows, keys, strict=True)
    ]
    assert bytes(encoded.data) == b"".join(expected)
    assert encoded.ends.tolist() == np.cumsum([0, *map(len, expected)]).tolist()


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=20), st.integers(0, 3))
def test_entries_are_those_of_encode_batch(rows: list[Row], lead: int) -> None:
    keys = key_block(len(rows))
    encoded = encode_entries(rows_of(rows, lead), unique_keys=keys)
    assert bytes(encoded.data) == batch.encode_batch(
        [
            batch.BatchEntry(0, row["body"], properties_of(row, bytes(key).decode()))
            for row, key in zip(rows, keys, strict=True)
        ]
    )
    assert encoded.ends[-1] == len(encoded.data)


def encode(rows: Rows, queue_id: int = 1) -> Any:
    return encode_records(
        rows,
        topic=b"T",
        queue_ids=queue_id,
        born_timestamp=NOW_MS,
        born_host=BORN_HOST,
        unique_keys=key_block(rows.size),
    )


def test_a_chunk_that_goes_to_another_queue_differs_in_the_queue_id_only() -> None:
    rows = Rows(pa.array([b"", b"one", b"the second"], pa.binary()))
    moved = with_queue_id(encode(rows, 5).chunk(1, 3), 9)
    assert bytes(moved.data) == bytes(encode(rows, 9).chunk(1, 3).data)
    assert moved.rows == 2


def test_properties_that_writer_and_broker_set_themselves_are_left_out() -> None:
    pairs = [("UNIQ_KEY", "old"), ("WAIT", "false"), ("CLUSTER", "c"), ("KEYS", "k"), ("mine", "v")]
    maps = pa.array([pairs, []], pa.map_(pa.string(), pa.string()))
    bodies = pa.array([b"a", b"b"], pa.binary())
    first, second = records.decode_records(bytes(encode(Rows(bodies, properties=maps)).data))
    assert first.keys == ("k",)
    assert first.properties["mine"] == "v"
    assert first.wait_store_ok
    assert first.unique_key != "old"
    assert set(second.properties) == {"UNIQ_KEY"}

    given_keys = Rows(bodies, keys=pa.array(["new", None]), properties=maps)
    assert next(records.decode_records(bytes(encode(given_keys).data))).keys == ("new",)


def test_a_separator_in_a_text_is_refused_with_its_row() -> None:
    bodies = pa.array([b"a", b"b", b"c"], pa.binary())
    with pytest.raises(RowError, match=r"row 2 .*0x01 or 0x02"):
        encode(Rows(bodies, tags=pa.array(["t", None, "u\x02"])))
    maps = pa.array([[], [("x", "y")], [("n\x01", "v")]], pa.map_(pa.string(), pa.string()))
    with pytest.raises(RowError, match="row 2 "):
        encode(Rows(bodies, properties=maps))


def test_properties_over_the_limit_are_refused_with_their_row() -> None:
    bodies = pa.array([b"a", b"b"], pa.binary())
    with pytest.raises(RowError, match=r"row 1 .*32767"):
        encode(Rows(bodies, keys=pa.array(["k", "k" * 32_767])))


def test_a_delayed_delivery_is_refused() -> None:
    maps = pa.array([[("DELAY", "3")]], pa.map_(pa.string(), pa.string()))
    with pytest.raises(RowError, match="DELAY asks for a delayed delivery"):
        encode(Rows(pa.array([b"a"], pa.binary()), properties=maps))


def test_unique_keys_count_on_over_blocks_and_begin_after_the_first() -> None:
    first = UniqueKeys(lambda: NOW_MS, Random(7)).next()
    blocks = UniqueKeyBlocks(first)
    drawn = [bytes(key).decode() for count in (3, 70_000) for key in blocks.draw(count)]
    assert drawn[0] == first
    assert len(set(drawn)) == 70_003
    numbers = [int(key, 16) for key in drawn]
    assert numbers == list(range(numbers[0], numbers[0] + 70_003))


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=40),
    st.integers(1, 120),
    st.integers(1, 8),
    st.data(),
)
def test_chunks_keep_to_groups_and_limits(
    sizes: list[int], size_max: int, count_max: int, data: st.DataObject
) -> None:
    ends = np.cumsum([0, *sizes])
    inner = data.draw(st.sets(st.integers(1, len(sizes))))
    groups = sorted({*inner, len(sizes)})
    bounds = chunk_bounds(ends, groups, size_max, count_max)
    assert bounds[0] == 0
    assert bounds[-1] == len(sizes)
    assert set(groups) <= set(bounds)
    for first, last in itertools.pairwise(bounds):
        assert 1 <= last - first <= count_max
        assert last - first == 1 or ends[last] - ends[first] <= size_max
