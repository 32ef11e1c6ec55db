"""Digits of many numbers are those that Python writes of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.spark.rows.hex_digits import LOWER, UPPER, put_digits


@pytest.mark.parametrize(("table", "kind"), [(UPPER, "X"), (LOWER, "x")])
@given(numbers=st.lists(st.integers(0, 2**63 - 1), max_size=9), width=st.sampled_from([2, 10, 12]))
def test_digits_are_those_of_each_number(
    table: np.ndarray, kind: str, numbers: list[int], width: int
) -> None:
    texts = np.full((len(numbers), width + 3), ord("-"), np.uint8)
    put_digits(np.array(numbers, np.int64), texts[:, 1:-2], table)
    expected = [f"-{number:0{width}{kind}}--"[-width - 2 :] for number in numbers]
    assert [bytes(text).decode()[1:] for text in texts] == expected
    assert (texts[:, 0] == ord("-")).all()
