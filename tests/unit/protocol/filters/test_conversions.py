from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.filters.conversions import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    Incomparable,
    double,
    double_or_more,
    integer,
    long,
    total_order,
    truth,
)


@given(st.integers(INT_MIN, INT_MAX))
def test_integers(value: int) -> None:
    assert integer(str(value)) == integer(f"{value:+}") == integer(f"{value:030}") == value


@given(st.integers(LONG_MIN, LONG_MAX))
def test_longs(value: int) -> None:
    assert long(str(value)) == long(f"{value:+}") == long(f"{value:030}") == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles(value: float) -> None:
    for text in (repr(value), f" {value!r}\t", f"{value!r}d", f"{value:+}F", value.hex()):
        assert double(text) == value


@pytest.mark.parametrize("text", ["٥", "５", "0" * 5_000 + "5", "٠" * 5_000 + "5"])
def test_unusual_digits(text: str) -> None:
    assert integer(text) == long(text) == 5


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "+", "-", "+-5", "1_0", "5L", "0x5", "5.", "𝟓", "¹", "9" * 5_000]
)
def test_no_integers(text: str) -> None:
    for read in (integer, long):
        with pytest.raises(Incomparable):
            read(text)


def test_ranges() -> None:
    for read, low, high in ((integer, INT_MIN, INT_MAX), (long, LONG_MIN, LONG_MAX)):
        assert (read(str(low)), read(str(high))) == (low, high)
        for outside in (low - 1, high + 1):
            with pytest.raises(Incomparable):
                read(str(outside))


@pytest.mark.parametrize(
    ("text", "value"),
    [("5.", 5.0), (".5", 0.5), ("\x00 1e3\x1f", 1e3), ("1e400", math.inf), ("-1e400", -math.inf),
     ("1e-400", 0.0), ("Infinity", math.inf), ("-Infinity", -math.inf), ("0x1p3", 8.0),
     ("-0X.8P-2f", -0.125), ("0x1p9999999999", math.inf), ("-0x1p9999999999", -math.inf)],
)  # fmt: skip
def test_unusual_doubles(text: str, value: float) -> None:
    assert double(text) == value


@pytest.mark.parametrize(
    "text", ["", ".", "inf", "nan", "infinity", "NaNd", "1_0", "٥", "0x1", "0x.p1", "5L", "5e",
             "1 2", "5\u00a0", "--5"],
)  # fmt: skip
def test_no_doubles(text: str) -> None:
    with pytest.raises(Incomparable):
        double(text)


def test_orders_as_java_does() -> None:
    texts = ["NaN", "Infinity", "1", "0.0", "-0.0", "-1", "-Infinity"]
    assert sorted(texts, key=total_order) == texts[::-1]
    assert total_order("NaN") == total_order("-NaN")
    assert double_or_more("NaN") == math.inf


def test_truth() -> None:
    assert [truth(t) for t in ("true", "TRUE", "tRue", "", "1", "true ", "yes")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip
