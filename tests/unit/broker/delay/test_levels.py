from __future__ import annotations

import pytest

from pocketmq.broker.delay.levels import delay_level_of
from pocketmq.protocol.errors import IllegalMessageError


@pytest.mark.parametrize(
    ("properties", "level"),
    [
        ("", 0),
        ("DELAY\x013\x02", 3),
        ("a\x01b\x02DELAY\x0119", 19),
        ("MYDELAY\x013\x02", 0),
        ("DELAY\x01-1\x02", -1),
        ("DELAY\x01\x02", 0),
    ],
)
def test_the_level_of_a_message(properties: str, level: int) -> None:
    assert delay_level_of(properties) == level


@pytest.mark.parametrize("value", ["x", "1.5", "3s", "9" * 5000])
def test_a_level_that_is_no_number(value: str) -> None:
    with pytest.raises(IllegalMessageError, match="DELAY"):
        delay_level_of(f"DELAY\x01{value}\x02")
