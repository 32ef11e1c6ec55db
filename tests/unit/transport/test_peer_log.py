from __future__ import annotations

import struct

import pytest
from support.peers.transport import Stage

from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.peer_log import ADDRESSES_MAX, LINES_MAX, PERIOD_S, PeerLog


async def test_an_address_has_so_many_lines_a_minute(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    peer_log = PeerLog(clock)
    for port in range(100):
        peer_log.warning(f"10.0.0.1:{port}", "bad %d", port)
    peer_log.warning("[::1]:1", "another")
    assert caplog.messages == [*(f"bad {port}" for port in range(LINES_MAX)), "another"]
    caplog.clear()
    await clock.advance(PERIOD_S)
    assert caplog.messages == ["left out 95 more warnings about 10.0.0.1 within 60 s"]
    caplog.clear()
    peer_log.warning("10.0.0.1:5", "bad again")
    assert caplog.messages == ["bad again"]


async def test_very_many_addresses_share_one_count(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    peer_log = PeerLog(clock)
    for i in range(ADDRESSES_MAX + 20):
        peer_log.warning(f"10.0.{i // 256}.{i % 256}:1", "bad")
    assert len(caplog.messages) == ADDRESSES_MAX + LINES_MAX
    assert clock.pending_timers == ADDRESSES_MAX + 1
    caplog.clear()
    await clock.advance(PERIOD_S)
    assert caplog.messages == ["left out 15 more warnings about other addresses within 60 s"]
    assert clock.pending_timers == 0


async def test_garbage_on_many_connections_makes_few_lines(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    server = await stage.serve({})
    for _ in range(2 * LINES_MAX):
        peer = await stage.dial(server)
        peer.transport.write(struct.pack(">ii", -1, 0))
        await peer.gone()
    assert caplog.text.count("a frame announces -1 bytes") == LINES_MAX
