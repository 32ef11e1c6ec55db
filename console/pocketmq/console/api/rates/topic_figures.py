"""The figures of topics, added up over all brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from pocketmq.client import Admin
from pocketmq.console.api.bodies.topics import TopicName
from pocketmq.console.api.masters import masters
from pocketmq.protocol.bodies.topics import TopicFigures
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import NoPermissionError, ResponseError, TopicMissingError

NumberT = TypeVar("NumberT", int, float)

FIGURES_MAX = 200
"""Topics of one answer with figures."""

ASKED_TOGETHER = 16
"""Topics that a broker is asked for at a time, if it takes but one in a request."""

UNKNOWN = -1
"""In the place of what a broker does not tell."""

Table = Mapping[str, TopicFigures | None]
"""Figures by topic, of one broker; None of a topic that the caller may not see."""


async def figures_by_broker(admin: Admin, names: Sequence[str]) -> dict[str, Table]:
    """Asks all masters for topics; by the names of the brokers.

    Brokers of RocketMQ tell neither sizes nor deliveries nor rates: these are `UNKNOWN` then.

    Raises:
        PocketMQError: a broker does not answer.
    """
    rows = await masters(admin)
    found = await asyncio.gather(*(_on(admin, row.address, names) for row in rows))
    return {row.broker_name: table for row, table in zip(rows, found, strict=True)}


async def _on(admin: Admin, address: str, names: Sequence[str]) -> Table:
    try:
        return await admin.topic_figures(names, address)
    except ResponseError as e:
        is_unknown = e.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        if not is_unknown and not isinstance(e, NoPermissionError):
            raise
    limit = asyncio.Semaphore(ASKED_TOGETHER)
    table: dict[str, TopicFigures | None] = {}

    async def ask(name: str) -> None:
        async with limit:
            try:
                if is_unknown:
                    table[name] = await _by_queues(admin, address, name)
                else:
                    table.update(await admin.topic_figures([name], address))
            except TopicMissingError:
                return
            except NoPermissionError:
                table[name] = None

    await asyncio.gather(*map(ask, names))
    return table


async def _by_queues(admin: Admin, address: str, name: str) -> TopicFigures:
    rows = await admin.topic_stats(name, broker_addr=address)
    return TopicFigures(
        queues=len(rows),
        messages=sum(row.count for row in rows),
        stored=sum(row.max_offset for row in rows),
        size=UNKNOWN,
        delivered=UNKNOWN,
        in_rate=UNKNOWN,
        out_rate=UNKNOWN,
    )


def listed(names: Iterable[TopicName], tables: Iterable[Table]) -> None:
    """Puts figures into the list; what one broker does not tell is not known of the topic."""
    parts = list(tables)
    for row in names:
        told = [table[row.name] for table in parts if row.name in table]
        known = [figures for figures in told if figures is not None]
        if not told or len(known) < len(told):
            continue
        row.queues = sum(one.queues for one in known)
        row.messages = sum(one.messages for one in known)
        row.size = _sum(one.size for one in known)
        row.in_rate = _sum(one.in_rate for one in known)
        row.out_rate = _sum(one.out_rate for one in known)


def _sum(amounts: Iterable[NumberT]) -> NumberT | None:
    known = list(amounts)
    return None if UNKNOWN in known else sum(known)
