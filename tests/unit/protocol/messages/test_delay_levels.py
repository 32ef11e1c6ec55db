"""RocketMQ's ladder of delays."""

from __future__ import annotations

import pytest

from pocketmq.broker.config.delay_levels import DELAY_LEVELS_DEFAULT, parse_delay_levels
from pocketmq.protocol.messages.delay_levels import DELAY_LEVELS_S, retry_delay_s


def test_the_ladder_is_that_of_brokers() -> None:
    assert [s * 1000 for s in DELAY_LEVELS_S] == list(
        parse_delay_levels(DELAY_LEVELS_DEFAULT).delays_ms
    )


@pytest.mark.parametrize(
    ("times", "level", "seconds"),
    [(0, 0, 10), (1, 0, 30), (15, 0, 7200), (99, 0, 7200), (3, 1, 1), (0, 18, 7200), (0, 99, 7200)],
)
def test_a_repetition_takes_the_next_step_unless_a_level_is_named(
    times: int, level: int, seconds: int
) -> None:
    assert retry_delay_s(times, level) == seconds
