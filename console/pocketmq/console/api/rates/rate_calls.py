"""The operation that tells rates over time, and the task that looks for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.rates.bodies import Rates, RatesQuery, Sample
from pocketmq.console.api.rates.history import SPAN_S, STEP_S, History
from pocketmq.console.api.rates.sampling import Subject, sample
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, UsageError
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks

HISTORIES_MAX = 64
"""Histories of one console; further ones take the place of the one asked for longest ago."""

SAMPLED_TOGETHER = 8
"""Samples under way at a time."""

_Key = tuple[Credentials | None, Subject]


class RateCalls:
    """Tells rates over time.

    A history belongs to a caller, with whose rights the console looks: whoever may not see
    something sees no history of it either. A console that nobody looks at asks for nothing.

    Args:
        callers: their clients.
        clock: the source of time.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._clock, self._sampled = clock.machine, callers.serve(self._of_subject)
        self._histories: OrderedDict[_Key, History] = OrderedDict()
        self._tasks = Tasks()

    @property
    def count(self) -> int:
        """How many histories are kept."""
        return len(self._histories)

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", f"{PREFIX}/rates", "getRates",
                "Messages a second in the last ten minutes: of all brokers, of a topic or of a "
                "group.",
                self.rates, Rates, query=RatesQuery,
            ),
        ]  # fmt: skip

    async def rates(self, call: Call) -> Rates:
        """Tells rates; the first request for them begins their history."""
        key = call.caller, _subject(call.query)
        history = self._histories.get(key)
        if history is None:
            first = await self._sample(key)
            history = self._histories.get(key)
            if history is None:
                history = self._histories[key] = History(first, self._clock.monotonic())
            if len(self._histories) > HISTORIES_MAX:
                self._histories.popitem(last=False)
        if not len(self._tasks):
            self._tasks.spawn(self._look(), "rates")
        self._histories.move_to_end(key)
        history.asked_s = self._clock.monotonic()
        return Rates(step_s=STEP_S, points=list(history.points))

    async def shown(self, clients: Clients, call: Call) -> Rates:
        """Tells rates for a page."""
        return await self.rates(call)

    async def _sample(self, key: _Key) -> Sample:
        caller, subject = key
        return await self._sampled(Call(path={}, query=subject, caller=caller))

    async def _of_subject(self, clients: Clients, call: Call) -> Sample:
        assert isinstance(call.query, Subject)
        return await sample(clients.admin, call.query)

    async def _look(self) -> None:
        """Takes samples until nobody asks for any."""
        while self._histories:
            await self._clock.sleep(STEP_S)
            self._forget()
            limit = asyncio.Semaphore(SAMPLED_TOGETHER)
            await asyncio.gather(*(self._take(key, limit) for key in list(self._histories)))

    async def _take(self, key: _Key, limit: asyncio.Semaphore) -> None:
        async with limit:
            found: Sample | None = None
            try:
                found = await self._sample(key)
            except (NoPermissionError, ProblemError):
                self._histories.pop(key, None)  # the next request learns why
                return
            except PocketMQError:
                found = None  # a gap: the page shows which broker is missing
            history = self._histories.get(key)
            if history is not None:
                history.take(found, self._clock.monotonic(), self._clock.now_ms())

    def _forget(self) -> None:
        oldest_s = self._clock.monotonic() - SPAN_S
        for key, history in list(self._histories.items()):
            if history.asked_s < oldest_s:
                del self._histories[key]

    async def close(self) -> None:
        """Stops looking. Idempotent."""
        await self._tasks.close()


def _subject(query: RatesQuery) -> Subject:
    if query.topic is not None and query.group is not None:
        raise UsageError("rates are of a topic or of a group, not of both")
    if query.topic is not None:
        return Subject("topic", query.topic)
    if query.group is not None:
        return Subject("group", query.group)
    return Subject("cluster")
