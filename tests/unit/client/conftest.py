from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from support.peers.client import Cluster

from pocketmq.testing.clock import VirtualClock


@pytest_asyncio.fixture
async def cluster(clock: VirtualClock) -> AsyncIterator[Cluster]:
    """A scripted cluster, empty to begin with."""
    cluster = Cluster(clock)
    yield cluster
    await cluster.close()
