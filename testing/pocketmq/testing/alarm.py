"""A timer of the clocks of tests: fires once, unless it is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

TimeT = TypeVar("TimeT", int, float)


class Alarm(Generic[TimeT]):
    """A timer.

    Args:
        due: when, in the unit of its clock.
        callback, args: what is called then.
    """

    __slots__ = ("args", "callback", "due")

    def __init__(self, due: TimeT, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.due: TimeT = due
        self.args = args
        self.callback: Callable[..., object] | None = callback

    def cancel(self) -> None:
        """Makes sure that the callback is not called any more."""
        self.callback = None

    def fire(self) -> None:
        """Calls the callback, unless it was cancelled; once."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(*self.args)
