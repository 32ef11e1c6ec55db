from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from support.peers.transport import Stage

from pocketmq.broker.turn_share import SHARE_S, TurnShare
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.slices import in_slices
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.server import Server

WORK, SEND, STATUS = (
    RequestCode.GET_TOPIC_CONFIG,
    RequestCode.SEND_MESSAGE,
    RequestCode.GET_TOPIC_STATS_INFO,
)


class WorkingClock(VirtualClock):
    """Time in which work takes as long as a test says, and nothing else takes any."""

    worked_s = 0.0

    def stopwatch(self) -> float:
        return self.worked_s


class Worker:
    """Handlers that log what they do, and how many long requests were under way."""

    def __init__(self, clock: WorkingClock) -> None:
        self._clock = clock
        self.begun, self.log = 0, list[tuple[int, bytes]]()

    def work(self, command: Command, _: Connection) -> Command:
        self._clock.worked_s += SHARE_S / 2
        return self.note(command, _)

    def note(self, command: Command, _: Connection) -> Command:
        self.log.append((self.begun, command.body))
        return Command(ResponseCode.SUCCESS, body=command.body)

    async def status(self, command: Command, _: Connection) -> Command:
        self.begun += 1
        async for _n in in_slices(self._clock, range(3), 1):
            self.log.append((self.begun, command.body))
        self.begun -= 1
        return Command(ResponseCode.SUCCESS)


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage(WorkingClock())
    yield stage
    await stage.close()


async def served(stage: Stage) -> tuple[Server, Worker]:
    """A server whose handlers keep to a share."""
    clock = stage.clock
    assert isinstance(clock, WorkingClock)
    share, worker = TurnShare(clock), Worker(clock)
    handlers: dict[int, Handler] = {
        WORK: worker.work,
        SEND: worker.note,
        STATUS: worker.status,
    }
    return await stage.serve({c: share.guard(c, h) for c, h in handlers.items()}), worker


def requests(code: int, *names: str) -> list[Command]:
    return [Command(code, body=name.encode(), opaque=n) for n, name in enumerate(names)]


async def test_requests_beyond_the_share_wait_for_later_turns_in_their_order(stage: Stage) -> None:
    server, _ = await served(stage)
    peer = await stage.dial(server)
    names = "abcdef"
    peer.send(*requests(WORK, *names), *requests(SEND, "last"))
    answers = await peer.got(7)
    assert [a.body.decode() for a in answers] == [*names, "last"]


async def test_the_request_that_uses_the_share_up_is_the_last_of_a_turn(stage: Stage) -> None:
    server, worker = await served(stage)
    peer = await stage.dial(server)
    peer.send(*requests(WORK, *"abcdef"))
    await peer.got(1)
    assert len(worker.log) < 6
    await peer.got(6)


async def test_a_connection_has_one_long_request_under_way(stage: Stage) -> None:
    server, worker = await served(stage)
    first, second = await stage.dial(server), await stage.dial(server)
    first.send(*requests(STATUS, "a", "b"), *requests(SEND, "c"))
    second.send(*requests(STATUS, "d"))
    await first.got(3)
    await second.got(1)
    mine = [body for _, body in worker.log if body != b"d"]
    assert mine == [b"a"] * 3 + [b"b"] * 3 + [b"c"]
    assert max(begun for begun, _ in worker.log) <= 2


async def test_a_request_that_waits_ends_with_its_connection(stage: Stage) -> None:
    server, worker = await served(stage)
    gone, other = await stage.dial(server), await stage.dial(server)
    gone.send(*requests(WORK, *"abcdef"))
    await gone.got(1)
    gone.transport.abort()
    other.send(*requests(WORK, "x"))
    assert (await other.got(1))[0].body == b"x"
    assert len(worker.log) < 7
