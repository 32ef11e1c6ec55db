"""The client on Apache's brokers; POCKETMQ_ROCKETMQ_NAMESRV names a running name server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest
from integration.client_scenarios import SCENARIOS, without_an_event_loop

NAMESRV = os.environ.get("POCKETMQ_ROCKETMQ_NAMESRV")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not NAMESRV, reason="POCKETMQ_ROCKETMQ_NAMESRV does not name a RocketMQ name server"
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
async def test_scenario(scenario: Callable[[str], Awaitable[None]]) -> None:
    assert NAMESRV
    await scenario(NAMESRV)


async def test_without_an_event_loop() -> None:
    assert NAMESRV
    await asyncio.to_thread(without_an_event_loop, NAMESRV)
