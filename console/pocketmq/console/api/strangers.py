"""Spares the brokers requests of nobody that they would refuse, and slow down, again and again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pocketmq.protocol.errors import NoPermissionError
from pocketmq.runtime.clock import Clock

T = TypeVar("T")

REFUSED_S = 10.0
"""For so long a refused request of nobody is refused without a question to the cluster."""


class Strangers:
    """Remembers what a cluster has refused to those who name no user.

    All of them share a connection to each broker, and a broker reads from a connection of strangers
    less and less often: without this, many visitors without a name would wait for one another.

    Args:
        clock: forgets.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: dict[str, tuple[float, NoPermissionError]] = {}

    async def ask(self, name: str, question: Callable[[], Awaitable[T]]) -> T:
        """Asks a question of nobody's, unless the cluster has just refused it.

        Args:
            name: stands for the question; there are as many names as operations.
            question: asks the cluster.

        Raises:
            NoPermissionError: the cluster refuses it, or has just done so.
        """
        at_s, error = self._refused.get(name, (0.0, None))
        if error is not None and self._clock.monotonic() - at_s < REFUSED_S:
            raise NoPermissionError(error.code, error.remark)
        try:
            return await question()
        except NoPermissionError as e:
            self._refused[name] = self._clock.monotonic(), e
            raise
