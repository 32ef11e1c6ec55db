"""Lists of functions that one object calls when something has happened to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Listeners(Generic[P]):
    """Functions that are called, the oldest first, with the same arguments.

    Attributes:
        notify: calls all of them. With a single listener it is that listener itself, so that hot
            paths pay for nothing else; read it anew for each notification.
    """

    __slots__ = ("_listeners", "notify")

    def __init__(self) -> None:
        self._listeners: tuple[Callable[P, object], ...] = ()
        self.notify: Callable[P, object] = self._notify_all

    def add(self, listener: Callable[P, object]) -> None:
        """Calls a function, too, from now on."""
        self._listeners = (*self._listeners, listener)
        self.notify = listener if len(self._listeners) == 1 else self._notify_all

    def clear(self) -> None:
        """Calls nobody any more."""
        self._listeners, self.notify = (), self._notify_all

    def _notify_all(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)
