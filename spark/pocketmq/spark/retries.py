"""Attempts that are repeated with longer and longer pauses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from pocketmq.client.errors import BrokerDownError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.leader_search import is_leader_lost
from pocketmq.client.sending.sending import RETRY_CODES
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.runtime.clock import Clock

T = TypeVar("T")

PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
"""The pause before another attempt; it doubles each time up to the maximum."""

LEADERLESS_RETRIES = 10
"""Further attempts, for half a minute, of what fails because a broker set has no leader."""


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


async def once_led(
    instance: ClientInstance, topics: Iterable[str], attempt: Callable[[], Awaitable[T]]
) -> T:
    """Repeats an attempt while a broker set has no leader, or has just got another one.

    Args:
        instance: running.
        topics: whose brokers the attempt asks.
        attempt: what is tried.

    Raises:
        OperatingError: that of the last attempt; of brokers of no set, that of the first one.
    """
    is_of_set = False

    async def one() -> T:
        nonlocal is_of_set
        try:
            return await attempt()
        except OperatingError as e:
            is_of_set = await has_new_routes(instance, topics, e)
            raise

    return await retried(instance.clock, LEADERLESS_RETRIES, one, gives_up=lambda _: not is_of_set)


async def has_new_routes(
    instance: ClientInstance, topics: Iterable[str], error: OperatingError
) -> bool:
    """Asks for routes anew if an error says that a leader is lost: the next attempt goes by them.

    Returns:
        Whether the error says so, and a broker set is among the brokers of the topics.
    """
    if not (is_leader_lost(error) or isinstance(error, BrokerDownError)):
        return False
    routes, is_of_set = instance.routes, False
    for topic in topics:
        with suppress(OperatingError):
            brokers = (await routes.ask(topic)).broker_datas
            is_of_set = is_of_set or any(routes.is_set(b.broker_name) for b in brokers)
    return is_of_set
