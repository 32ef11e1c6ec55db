from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
import uvloop
from unit.client.peers import Cluster

from pocketmq.testing.clock import VirtualClock


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def cluster(clock: VirtualClock) -> AsyncIterator[Cluster]:
    """A scripted cluster, empty to begin with."""
    cluster = Cluster(clock)
    yield cluster
    await cluster.close()
