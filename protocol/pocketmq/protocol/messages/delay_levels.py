"""RocketMQ's ladder of delays (messageDelayLevel), as brokers have it by default."""

from __future__ import annotations

DELAY_LEVELS_S = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
)  # fmt: skip
"""Seconds of level 1, 2 and so on."""

FIRST_RETRY_LEVEL = 3
"""The level of a message's first repetition; each further one takes the next."""


def retry_delay_s(reconsume_times: int, delay_level: int = 0) -> int:
    """Returns after how many seconds a message comes again.

    Args:
        reconsume_times: how often it did so before.
        delay_level: of the ladder; 0 for the one of its next repetition.
    """
    level = delay_level or FIRST_RETRY_LEVEL + reconsume_times
    return DELAY_LEVELS_S[min(max(level, 1), len(DELAY_LEVELS_S)) - 1]
