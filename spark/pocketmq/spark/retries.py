"""Attempts that are repeated with longer and longer pauses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pocketmq.client.sending.sending import RETRY_CODES
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.runtime.clock import Clock

T = TypeVar("T")

PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
"""The pause before another attempt; it doubles each time up to the maximum."""


def is_final(error: OperatingError) -> bool:
    """Whether a broker has refused in a way that it would repeat."""
    return isinstance(error, ResponseError) and error.code not in RETRY_CODES


async def retried(
    clock: Clock,
    retries: int,
    attempt: Callable[[], Awaitable[T]],
    gives_up: Callable[[OperatingError], bool] = is_final,
) -> T:
    """Repeats an attempt until it succeeds; returns its result.

    Args:
        clock: for the pauses.
        retries: further attempts after the first one.
        attempt: what is tried.
        gives_up: whether an error ends the attempts.

    Raises:
        OperatingError: that of the last attempt.
    """
    pause_s = PAUSE_S
    while True:
        try:
            return await attempt()
        except OperatingError as e:
            if retries <= 0 or gives_up(e):
                raise
        retries -= 1
        await clock.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
