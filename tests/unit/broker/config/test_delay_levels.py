from __future__ import annotations

import pytest

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.config.delay_levels import (
    DELAY_LEVELS_DEFAULT,
    DELAY_MS_MAX,
    LEVELS_MAX,
    parse_delay_levels,
)
from pocketmq.protocol.errors import ConfigError


def test_the_default_levels() -> None:
    levels = parse_delay_levels(DELAY_LEVELS_DEFAULT)
    seconds = [1, 5, 10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30)), 3600, 7200]
    assert [levels.delay_ms(level) for level in range(1, 19)] == [s * 1000 for s in seconds]
    assert levels.clamp(18) == 18
    assert levels.clamp(19) == levels.clamp(1 << 70) == 18


def test_units_and_the_delay_of_a_level_that_is_gone() -> None:
    levels = parse_delay_levels(" 2s  3m 4h\t365d ")
    assert levels.delays_ms == (2000, 180_000, 14_400_000, DELAY_MS_MAX)
    assert levels.delay_ms(9) == DELAY_MS_MAX


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names 0 levels"),
        ("1s " * (LEVELS_MAX + 1), f"names {LEVELS_MAX + 1} levels"),
        ("1s 5", "holds '5'"),
        ("1s s", "holds 's'"),
        ("1s -1s", "holds '-1s'"),
        ("1s 1.5s", "holds '1.5s'"),
        ("1s ٣s", "holds '٣s'"),
        ("1s 1w", "holds '1w'"),
        ("0s", "between 1 s and 365 d"),
        ("366d", "between 1 s and 365 d"),
        ("9" * 5000 + "s", "between 1 s and 365 d"),
    ],
)
def test_what_is_no_list_of_delays(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match="messageDelayLevel") as caught:
        parse_delay_levels(text)
    assert reason in str(caught.value)
    with pytest.raises(ConfigError):
        BrokerConfig(message_delay_level=text)
