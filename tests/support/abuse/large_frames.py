"""Attacks by frames that are announced and never finished."""

from __future__ import annotations

import asyncio
import struct

from support.abuse.arena import Arena, Attack

from pocketmq.protocol.wire.frames import FRAME_SIZE_MAX

ANNOUNCED_SIZE = FRAME_SIZE_MAX - 1024 * 1024
SENT_SIZE = 70 * 1024
HONEST_SIZE, HONEST_INTERVAL_MS = 3_000_000, 250
HONEST_SENDS_S = 5.0


async def unfinished_frames(arena: Arena) -> None:
    """Each of some connections announces a large frame and sends little of it; others send 3 MB."""
    head = struct.pack(">ii", ANNOUNCED_SIZE, 100)
    async with arena.measured(HONEST_SIZE, HONEST_INTERVAL_MS):
        attackers = [await arena.connect() for _ in range(arena.size)]
        for attacker in attackers:
            await attacker.write(head + bytes(SENT_SIZE))
        closed = asyncio.ensure_future(attackers[0].read())
        await asyncio.wait([closed], timeout=HONEST_SENDS_S)
        closed.cancel()


ATTACKS = [Attack("40 frames of 15 MiB begun, 70 KB of each sent", unfinished_frames, 40, None)]
