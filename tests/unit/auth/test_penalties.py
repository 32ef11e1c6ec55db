"""How strangers are made to wait."""

from __future__ import annotations

from functools import partial

from support.peers.transport import RawPeer, Stage, until

from pocketmq.auth.penalties import (
    FORGIVEN_S,
    FREE_COUNT,
    PENALTY_MAX_S,
    PENALTY_MIN_S,
    Penalties,
)
from pocketmq.auth.refused import RefusedRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection

KNOWN, STRANGER = 1, 2


class Served:
    """A server that refuses everything."""

    def __init__(self, clock: VirtualClock) -> None:
        self.penalties = Penalties(clock)
        self.count = 0

    def handle(self, command: Command, connection: Connection) -> Command:
        self.count += 1
        self.penalties.note(
            RefusedRequest(connection, command.code, "", command.code == KNOWN, "no", False)
        )
        return Command(16, remark="no")

    def has_handled(self, count: int) -> bool:
        return self.count == count

    async def dial(self, stage: Stage) -> RawPeer:
        return await stage.dial(await stage.serve(dict.fromkeys((KNOWN, STRANGER), self.handle)))


async def test_a_stranger_is_answered_less_and_less_often(clock: VirtualClock) -> None:
    stage, served = Stage(clock), Served(clock)
    peer = await served.dial(stage)
    peer.send(*[Command(STRANGER) for _ in range(FREE_COUNT + 60)])
    await until(lambda: served.count == FREE_COUNT + 1)
    await settle()
    assert served.count == FREE_COUNT + 1
    for number, pause_s in enumerate((PENALTY_MIN_S, 2 * PENALTY_MIN_S, 4 * PENALTY_MIN_S), 2):
        await clock.advance(pause_s)
        await until(partial(served.has_handled, FREE_COUNT + number))
    for _ in range(10):
        await clock.advance(PENALTY_MAX_S)
        await settle()
    before = served.count
    for _ in range(5):
        await clock.advance(PENALTY_MAX_S)
        await settle()
    assert served.count == before + 5, "one in each pause, which grows no more"
    await stage.close()


async def test_who_is_known_never_waits_and_a_stranger_is_forgiven(clock: VirtualClock) -> None:
    stage, served = Stage(clock), Served(clock)
    peer = await served.dial(stage)
    peer.send(*[Command(KNOWN) for _ in range(100)])
    await until(lambda: served.count == 100)
    peer.send(*[Command(STRANGER) for _ in range(FREE_COUNT)])
    await until(lambda: served.count == 100 + FREE_COUNT)
    await clock.advance(FORGIVEN_S + 1)
    peer.send(*[Command(STRANGER) for _ in range(FREE_COUNT)])
    await until(lambda: served.count == 100 + 2 * FREE_COUNT)
    await stage.close()


async def test_a_connection_that_goes_in_its_pause_is_forgotten(clock: VirtualClock) -> None:
    stage, served = Stage(clock), Served(clock)
    peer = await served.dial(stage)
    peer.send(*[Command(STRANGER) for _ in range(FREE_COUNT + 5)])
    await until(lambda: served.count == FREE_COUNT + 1)
    peer.transport.abort()
    await peer.gone()
    await clock.advance(PENALTY_MAX_S)
    assert served.count == FREE_COUNT + 1
    await stage.close()
