"""The results of a redrive, broker by broker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec

from pocketmq.client import Admin
from pocketmq.console.api.redrives.order_bodies import Result, ResultQuery, Results
from pocketmq.console.api.redrives.progress import result_of
from pocketmq.protocol.bodies.redrives import Outcome
from pocketmq.protocol.errors import UsageError

PAGES_MAX = 20
"""Pages of brokers that one answer looks at."""

PART_SIZE = 64 * 1024
"""Bytes that a download sends at a time."""


class _Place(msgspec.Struct, array_like=True):
    """Where the next page begins."""

    broker: str
    begin: int


class ResultReading:
    """Reads results.

    Args:
        admin: of the caller.
        group, redrive_id: which redrive.
        brokers: those that carry it out, in order.
    """

    def __init__(self, admin: Admin, group: str, redrive_id: str, brokers: Sequence[str]) -> None:
        self._admin, self._group, self._redrive_id = admin, group, redrive_id
        self._brokers = list(brokers)

    async def page(self, query: ResultQuery) -> Results:
        """Reads some results: the pages of brokers until there are enough.

        Raises:
            UsageError: the cursor does not fit.
        """
        place: _Place | None = self._place(query.cursor)
        found: list[Result] = []
        for _ in range(PAGES_MAX):
            if place is None or len(found) >= query.limit:
                break
            page, place = await self._read(place, query.outcome)
            found += page
        text = None if place is None else msgspec.json.encode(place).decode()
        return Results(results=found, next=text)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Reads all results, as JSON lines; several at a time."""
        place: _Place | None = self._place(None)
        while place is not None:
            found, place = await self._read(place, None)
            part = bytearray()
            for result in found:
                part += msgspec.json.encode(result) + b"\n"
                if len(part) >= PART_SIZE:
                    yield bytes(part)
                    part.clear()
            if part:
                yield bytes(part)

    async def _read(
        self, place: _Place, outcome: Outcome | None
    ) -> tuple[list[Result], _Place | None]:
        page = await self._admin.redrive_results(
            self._group, self._redrive_id, place.broker, place.begin
        )
        found = [
            result_of(result, place.broker)
            for result in page.results
            if outcome in (None, result.outcome)
        ]
        if page.next >= 0:
            return found, _Place(place.broker, page.next)
        following = self._brokers.index(place.broker) + 1
        if following == len(self._brokers):
            return found, None
        return found, _Place(self._brokers[following], -1)

    def _place(self, cursor: str | None) -> _Place:
        if cursor is None:
            return _Place(self._brokers[0], -1)
        try:
            place = msgspec.json.decode(cursor, type=_Place)
        except msgspec.MsgspecError as e:
            raise UsageError(f"the cursor is not of an answer of this API: {e}") from e
        if place.broker not in self._brokers:
            raise UsageError(f"the cursor is of the broker {place.broker!r}, which has no part")
        return place
