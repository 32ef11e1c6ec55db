"""Values that are replaced while their users run, such as settings changed at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Live(Generic[T]):
    """Holds the value in force of something that changes at run time.

    Users keep the `Live` object and read `now` each time they need the value.

    Args:
        now: the first value.

    Attributes:
        now: the value in force.
    """

    __slots__ = ("_followers", "now")

    def __init__(self, now: T) -> None:
        self.now = now
        self._followers: list[Callable[[T], object]] = []

    def replace(self, value: T) -> None:
        """Puts another value in force, then calls the followers with it, the oldest first."""
        self.now = value
        for follower in self._followers:
            follower(value)

    def follow(self, follower: Callable[[T], object]) -> None:
        """Calls a function with each value that is put in force from now on."""
        self._followers.append(follower)

    def view(self, of: Callable[[T], U]) -> Live[U]:
        """Derives a live value from this one.

        Args:
            of: computes the derived value. The followers of the derived value are called only if
                the result differs from the one before.
        """
        derived = Live(of(self.now))

        def update(value: T) -> None:
            result = of(value)
            if result != derived.now:
                derived.replace(result)

        self.follow(update)
        return derived
