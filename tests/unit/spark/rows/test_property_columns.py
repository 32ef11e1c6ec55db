"""Properties taken apart together are those that the protocol package reads one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.protocol.messages import properties as props
from pocketmq.spark.rows.property_columns import PropertyColumns, cut_out

NAMES = st.sampled_from(["a", "xy", "KEYS", "UNIQ_KEY", "längst", "NOKEYS"])
VALUES = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=9
)
ENTRIES = st.lists(st.tuples(NAMES, VALUES), max_size=5)
REGULAR = ENTRIES.map(lambda pairs: "".join(f"{k}\x01{v}\x02" for k, v in pairs))
ODD = st.lists(st.sampled_from(["a", "KEYS", "ü", "\x01", "\x02"]), max_size=9).map("".join)


@settings(deadline=None)
@given(st.lists(REGULAR, max_size=9) | st.lists(REGULAR | ODD, max_size=9), st.integers(0, 2))
def test_maps_and_values_are_those_of_the_protocol(texts: list[str], lead: int) -> None:
    array = pa.array(["k\x01lead\x02"] * lead + texts, pa.string()).slice(lead)
    columns = PropertyColumns(array)
    expected = [props.decode(text) for text in texts]
    assert [dict(pairs) for pairs in columns.maps().to_pylist()] == expected
    for name in ("a", "xy", "KEYS", "UNIQ_KEY", "längst", "absent", "x"):
        assert columns.value_of(name).to_pylist() == [found.get(name) for found in expected]


@pytest.mark.parametrize(
    "texts",
    [
        ["a\x01b\x02c", "d\x01e\x02"],  # what one message lacks, the next one must not complete
        ["a\x01", "b\x02"],
        ["a\x01b\x02", "c", "\x01d\x02"],
        ["a\x01b\x02a\x01c\x02b\x01d\x02", "a\x01e\x02"],
        ["a\x01b\x01c\x02"],
        ["\x01b\x02", "a\x01\x02"],
    ],
)
def test_messages_are_kept_apart(texts: list[str]) -> None:
    columns = PropertyColumns(pa.array(texts, pa.string()))
    assert [dict(m) for m in columns.maps().to_pylist()] == [props.decode(t) for t in texts]


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), max_size=9))
def test_parts_are_cut_out(pieces: list[tuple[bytes, bytes]]) -> None:
    data, starts, ends = b"", [], []
    for gap, part in pieces:
        starts.append(len(data) + len(gap))
        ends.append(starts[-1] + len(part))
        data += gap + part
    found = cut_out(data, *(pa.array(at, pa.int64()).to_numpy() for at in (starts, ends)))
    assert found.to_pylist() == [part for _, part in pieces]
