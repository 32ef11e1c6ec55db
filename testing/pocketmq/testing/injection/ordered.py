"""A fault that was ordered, of whatever kind, until it is removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pocketmq.testing.injection.rules import Fired, Rule


class OrderedFault:
    """A fault in force.

    Args:
        text: the order, for messages.
        end: ends the fault.
        rule: the rule of a fault of requests; None for other faults.
        in_force: the faults in force in the cluster, which this one is among until its end.

    Attributes:
        text, rule: the same.
    """

    def __init__(
        self,
        text: str,
        end: Callable[[], Awaitable[object]],
        rule: Rule | None,
        in_force: dict[OrderedFault, None],
    ) -> None:
        self.text, self.rule = text, rule
        self._end: Callable[[], Awaitable[object]] | None = end
        self._in_force = in_force
        in_force[self] = None

    async def remove(self) -> None:
        """Ends the fault. Idempotent; an end that failed is tried again."""
        end, self._end = self._end, None
        if end is None:
            return
        try:
            await end()
        except BaseException:
            self._end = end
            raise
        self._in_force.pop(self, None)

    @property
    def count(self) -> int:
        """How often the fault fired."""
        return 0 if self.rule is None else self.rule.count

    @property
    def fired(self) -> list[Fired]:
        """The requests that the fault fired for, oldest first."""
        return [] if self.rule is None else list(self.rule.fired)

    @property
    def is_unused(self) -> bool:
        """Whether the fault is one of requests and none has matched so far."""
        return self.rule is not None and not self.rule.count
