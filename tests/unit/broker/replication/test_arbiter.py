from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.peers.transport import Stage

from pocketmq.broker.replication.arbiter import TIMEOUT_MS, ArbiterError, NameServerArbiter
from pocketmq.testing.clock import VirtualClock


async def test_an_arbiter_that_was_silent_is_asked_over_a_new_connection(
    clock: VirtualClock,
) -> None:
    """Over the old one TCP may send again only long after a cut link was mended."""
    stage = Stage(clock)
    silent = await stage.raw_server()
    arbiter = NameServerArbiter(stage.pool(), [silent.address])
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: arbiter.read("key"),
        lambda: arbiter.write("key", b"", 0),
    ]
    for number, ask in enumerate(asks):
        asking = asyncio.ensure_future(ask())
        peer = await silent.peer(number)
        await peer.got(1)
        await clock.advance(TIMEOUT_MS / 1000)
        with pytest.raises(ArbiterError, match="does not answer: no answer from"):
            await asking
        await peer.gone()
    await stage.close()
