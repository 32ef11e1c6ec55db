"""Servers, pools and bare sockets on 127.0.0.1, on both kinds of event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
import uvloop
from support.peers.transport import Stage

from pocketmq.testing.clock import VirtualClock


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def stage(clock: VirtualClock) -> AsyncIterator[Stage]:
    """What a test needs of both sides."""
    stage = Stage(clock)
    yield stage
    await stage.close()
