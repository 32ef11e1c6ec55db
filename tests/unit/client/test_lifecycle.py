from __future__ import annotations

import asyncio

import pytest

from pocketmq.client.lifecycle import Lifecycle
from pocketmq.testing.clock import settle


class Steps:
    """Notes when steps begin and end; they last until `gate` opens."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.gate = asyncio.Event()

    async def start(self) -> None:
        self.noted.append("start")
        await self.gate.wait()
        self.noted.append("started")

    async def close(self) -> None:
        self.noted.append("close")
        await self.gate.wait()
        self.noted.append("closed")


async def test_who_closes_together_waits_for_one_close() -> None:
    life, steps = Lifecycle(), Steps()
    closes = [asyncio.ensure_future(life.close(steps.close)) for _ in range(3)]
    await settle(3)
    assert not any(close.done() for close in closes)
    steps.gate.set()
    await asyncio.gather(*closes)
    assert steps.noted == ["close", "closed"]
    await life.close(steps.close)
    assert steps.noted == ["close", "closed"] * 2


async def test_a_close_ends_though_nobody_waits_any_more() -> None:
    life, steps = Lifecycle(), Steps()
    close = asyncio.ensure_future(life.close(steps.close))
    await settle(3)
    close.cancel()
    with pytest.raises(asyncio.CancelledError):
        await close
    steps.gate.set()
    await life.close(steps.close)
    assert steps.noted == ["close", "closed"]


async def test_a_close_waits_for_the_start() -> None:
    life, steps = Lifecycle(), Steps()
    start = asyncio.ensure_future(life.start(steps.start))
    await settle(3)
    close = asyncio.ensure_future(life.close(steps.close))
    await settle(3)
    assert steps.noted == ["start"]
    steps.gate.set()
    await asyncio.gather(start, close)
    assert steps.noted == ["start", "started", "close", "closed"]


async def test_an_error_reaches_all_who_wait() -> None:
    async def fail() -> None:
        raise OSError("disk")

    life = Lifecycle()
    closes = [asyncio.ensure_future(life.close(fail)) for _ in range(2)]
    results = await asyncio.gather(*closes, return_exceptions=True)
    assert [str(r) for r in results] == ["disk", "disk"]
