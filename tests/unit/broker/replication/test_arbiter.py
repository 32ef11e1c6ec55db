from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from support.peers.transport import Stage

from pocketmq.broker.replication.arbiter import (
    TIMEOUT_MS,
    ArbiterError,
    FencedArbiter,
    NameServerArbiter,
    Versioned,
)
from pocketmq.namesrv.arbiter import ArbiterFile
from pocketmq.testing.clock import VirtualClock, settle


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


class Slow:
    """A name server's file of values, whose answers take a turn of the loop, or are lost.

    Attributes:
        answers: whether reads are answered.
        loses: whether the answers to writes are lost; the writes themselves take place later.
        late: those that have not taken place.
    """

    def __init__(self, path: Path) -> None:
        self.file = ArbiterFile(path)
        self.loses = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.late: list[tuple[str, bytes, int]] = []

    async def read(self, key: str) -> Versioned:
        found = Versioned(*self.file.read(key))
        await settle(1)
        await self.answers.wait()
        return found

    async def write(self, key: str, value: bytes, version: int) -> int | None:
        await settle(1)
        if self.loses:
            self.late.append((key, value, version))
            raise ArbiterError("no answer")
        now, is_done = self.file.write(key, value, version)
        return now if is_done else None

    def arrive(self) -> list[bool]:
        """What is late takes place; whether it still could."""
        late, self.late = self.late, []
        return [self.file.write(*write)[1] for write in late]


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    slow = Slow(tmp_path / "arbiter.db")
    yield slow
    slow.file.close()


async def test_reads_at_the_same_time_decide_a_write_of_unknown_fate(slow: Slow) -> None:
    arbiter = FencedArbiter(slow)
    version = await arbiter.write("key", b"first", 0)
    assert version is not None
    slow.loses = True
    with pytest.raises(ArbiterError):
        await arbiter.write("key", b"lost", version)
    slow.loses = False
    found = await asyncio.gather(*(arbiter.read("key") for _ in range(3)))
    assert {each.value for each in found} == {b"first"}
    assert slow.arrive() == [False]
    assert (await arbiter.read("key")).value == b"first"


async def test_a_read_from_before_does_not_decide_a_write(slow: Slow) -> None:
    arbiter = FencedArbiter(slow)
    first = await arbiter.write("key", b"first", 0)
    assert first is not None
    slow.answers.clear()
    reading = asyncio.ensure_future(arbiter.read("key"))
    await settle(1)  # it has seen the first value
    second = slow.file.write("key", b"second", first)[0]
    slow.loses = True
    with pytest.raises(ArbiterError):
        await arbiter.write("key", b"lost", second)
    slow.loses = False
    slow.answers.set()
    await reading
    await arbiter.read("key")
    assert slow.arrive() == [False]
    assert (await arbiter.read("key")).value == b"second"
