from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from support.peers.transport import Stage, until

from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, Handler
from pocketmq.transport.metering import metered

PULL = RequestCode.PULL_MESSAGE


class Noted(NamedTuple):
    request_code: int
    code: int
    is_late: bool
    result: str
    latency_ms: float


class Notes(list[Noted]):
    """A meter that keeps what it is told."""

    def answered(
        self, request: Command, code: int, is_late: bool, result: str, latency_ms: float
    ) -> None:
        self.append(Noted(request.code, code, is_late, result, latency_ms))


def at_once(_: Command, __: Connection) -> Command:
    return Command(ResponseCode.SUCCESS)


def shortly(command: Command, connection: Connection) -> None:
    connection.succeed(command)


def refuse(_: Command, __: Connection) -> Command:
    raise response_error(ResponseCode.NO_PERMISSION, "no")


@pytest.mark.parametrize(
    ("handler", "code", "result"),
    [
        (at_once, 0, "success"),
        (shortly, 0, "success"),
        (refuse, ResponseCode.NO_PERMISSION, "success"),
    ],
)
async def test_an_answer_is_told_once(
    stage: Stage, handler: Handler, code: int, result: str
) -> None:
    notes = Notes()
    peer = await stage.dial(await stage.serve({7: handler}, meter=notes))
    peer.send(Command(7, 1))
    await peer.got(1)
    assert notes == [Noted(7, code, False, result, 0.0)]


async def test_the_time_is_that_since_the_request_came(stage: Stage, clock: VirtualClock) -> None:
    notes, go_on, began = Notes(), asyncio.Event(), list[int]()

    async def later(command: Command, _: Connection) -> Command:
        began.append(command.opaque)
        await go_on.wait()
        return Command(ResponseCode.SUCCESS)

    peer = await stage.dial(await stage.serve({PULL: later}, meter=notes))
    peer.send(Command(PULL, 1))
    await until(lambda: began)
    await clock.advance(2.5)
    go_on.set()
    await peer.got(1)
    assert notes == [Noted(PULL, 0, True, "success", 2500.0)]


async def test_a_handler_that_fails_says_so(stage: Stage) -> None:
    notes = Notes()

    def break_down(_: Command, __: Connection) -> Command:
        raise RuntimeError("a bug")

    peer = await stage.dial(await stage.serve({7: break_down}, meter=notes))
    peer.send(Command(7, 1))
    await peer.got(1)
    assert [(n.code, n.result) for n in notes] == [(1, "process_request_failed")]


async def test_one_way_requests_and_unknown_ones(stage: Stage) -> None:
    notes = Notes()
    peer = await stage.dial(await stage.serve({7: at_once}, meter=notes))
    peer.send(Command(7, 1, flag=FLAG_ONEWAY), Command(8, 2))
    await peer.got(1)
    assert [(n.request_code, n.code, n.result) for n in notes] == [
        (7, 0, "oneway"),
        (8, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "success"),
    ]


async def test_requests_that_are_never_answered_are_forgotten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metered, "UNANSWERED_MAX", 2)
    notes = Notes()
    asked: list[tuple[Command, Connection]] = []

    def ignore(command: Command, connection: Connection) -> None:
        asked.append((command, connection))

    peer = await stage.dial(await stage.serve({7: ignore}, meter=notes))
    peer.send(*(Command(7, opaque) for opaque in range(1, 5)))
    await until(lambda: len(asked) == 4)
    for command, connection in asked:
        connection.succeed(command)
    await peer.got(4)
    assert len(notes) == 2
