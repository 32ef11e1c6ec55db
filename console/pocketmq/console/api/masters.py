"""Asks all masters of a cluster; one that does not answer is told of beside the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from pocketmq.client import Admin
from pocketmq.client.admin.results import BrokerRow
from pocketmq.console.web.bodies import ResponseBody
from pocketmq.protocol.errors import NoPermissionError, PocketMQError, UsageError

T = TypeVar("T")


class SilentBroker(ResponseBody):
    """A broker that did not do what it was asked.

    Attributes:
        broker, address: which.
        problem: why not.
    """

    broker: str
    address: str
    problem: str


class Told(NamedTuple, Generic[T]):
    """What the masters have told.

    Attributes:
        answers: by the names of the brokers.
        silent: the others, and why.
    """

    answers: dict[str, T]
    silent: list[SilentBroker]


async def masters(admin: Admin) -> list[BrokerRow]:
    """Returns the masters, and the leaders of broker sets, of all clusters."""
    return [row for row in await admin.brokers() if not row.broker_id]


async def ask_masters(admin: Admin, ask: Callable[[str], Awaitable[T]]) -> Told[T]:
    """Asks all masters at the same time.

    Args:
        admin: knows them.
        ask: asks the broker at an address.

    Raises:
        NoPermissionError: the caller may not ask.
        UsageError: the question does not fit.
    """
    rows = await masters(admin)
    found = await asyncio.gather(*(_answer(ask, row) for row in rows))
    answers = {
        row.broker_name: answer[0]
        for row, answer in zip(rows, found, strict=True)
        if not isinstance(answer, SilentBroker)
    }
    return Told(answers, [answer for answer in found if isinstance(answer, SilentBroker)])


async def _answer(ask: Callable[[str], Awaitable[T]], row: BrokerRow) -> tuple[T] | SilentBroker:
    try:
        return (await ask(row.address),)
    except (NoPermissionError, UsageError):
        raise
    except PocketMQError as e:
        return SilentBroker(broker=row.broker_name, address=row.address, problem=str(e))


async def change_masters(admin: Admin, change: Callable[[str], Awaitable[object]]) -> Told[None]:
    """Has all masters change something, one after the other.

    Args:
        admin: knows them.
        change: has the broker at an address do it.

    Raises:
        PocketMQError: no broker has done it.
    """
    done: dict[str, None] = {}
    silent = []
    first: PocketMQError | None = None
    for row in await masters(admin):
        try:
            await change(row.address)
        except PocketMQError as e:
            first = first or e
            silent.append(SilentBroker(broker=row.broker_name, address=row.address, problem=str(e)))
        else:
            done[row.broker_name] = None
    if first is not None and not done:
        raise first
    return Told(done, silent)
