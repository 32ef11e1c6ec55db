"""The clients of name_servers.py: connections that ask for routes, as light as they can be."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from typing import cast

import uvloop

from pocketmq.protocol.codes import Version
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command

DIALLED_TOGETHER = 64
CLIENTS_OF_ADDRESS = 100
"""Clients that share a loopback address, as they share machines."""

SEED = 1
TICK_S = 0.005
_SUCCESS = b'"code":0'


def route_frame(topic: str) -> bytes:
    """The question for a route as Java's clients of today write it."""
    header = RouteRequest(topic=topic, accept_standard_json_only=True)
    command = Command(header.code, opaque=1, header=header)
    command.version = Version.V5_5_0
    return frames.encode(command)


class Wire(asyncio.Protocol):
    """A connection with requests that are answered in their order; it counts bytes only."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionResetError("the name server has closed"))

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            end = 4 + int.from_bytes(self._data[:4], "big")
            if len(self._data) < end:
                return
            answer = bytes(self._data[:end])
            del self._data[:end]
            self.answered(answer)

    def answered(self, answer: bytes) -> None:
        """Gives a frame to whoever waits."""
        future = self._waiting.popleft()
        if not future.done():
            future.set_result(answer)

    async def ask(self, request: bytes) -> bytes:
        """Sends a request and returns the frame of its answer."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._transport.write(request)
        return await future

    def close(self) -> None:
        self._transport.abort()


class PollingClient(Wire):
    """Asks for one route after the other; notes how long each took."""

    def __init__(self, load: Load, topics: Sequence[str]) -> None:
        super().__init__()
        self._load = load
        self._questions = itertools.cycle([route_frame(topic) for topic in topics])
        self._asked_s = 0.0

    def poll(self) -> None:
        """Asks for the next route, unless the last one has not come yet."""
        if not self._asked_s:
            self._asked_s = time.perf_counter()
            self._transport.write(next(self._questions))

    def answered(self, answer: bytes) -> None:
        self._load.took_s.append(time.perf_counter() - self._asked_s)
        self._load.size += len(answer)
        self._load.refused += _SUCCESS not in answer[:400]
        self._asked_s = 0.0


class Load:
    """What the clients have done: seconds of each poll, bytes of all answers, and refusals."""

    def __init__(self) -> None:
        self.took_s: list[float] = []
        self.size = self.refused = 0


async def dial(address: str, wire: Wire | None = None, source: str | None = None) -> Wire:
    """Opens a connection, from an address of this machine if one is named."""
    host, _, port = address.rpartition(":")
    opened = wire or Wire()
    await asyncio.get_running_loop().create_connection(
        lambda: opened, host, int(port), local_addr=(source, 0) if source else None
    )
    return opened


def poll(
    pipe: Pipe, address: str, topics: Sequence[str], clients: int, each: int, period_s: float,
    seconds: float,
) -> None:  # fmt: skip
    """The process of the clients: connects them, and polls when it is told to.

    Sends something when all are connected, and at the end (polls, refused ones, median and 99th
    percentile in ms, bytes of a mean answer).
    """
    uvloop.run(_poll(pipe, address, topics, clients, each, period_s, seconds))


async def _poll(
    pipe: Pipe, address: str, topics: Sequence[str], clients: int, each: int, period_s: float,
    seconds: float,
) -> None:  # fmt: skip
    rng, load, limit = random.Random(SEED), Load(), asyncio.Semaphore(DIALLED_TOGETHER)
    peers = [PollingClient(load, rng.choices(topics, k=each)) for _ in range(clients)]

    async def connect(number: int, peer: PollingClient) -> None:
        block = number // CLIENTS_OF_ADDRESS
        async with limit:
            await dial(address, peer, f"127.0.{1 + block // 250}.{1 + block % 250}")

    await asyncio.gather(*(connect(number, peer) for number, peer in enumerate(peers)))
    pipe.send("connected")
    await asyncio.to_thread(pipe.recv)
    rate_per_s = clients * each / period_s
    turn = itertools.cycle(peers)
    began, polled = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        while polled < passed * rate_per_s:
            next(turn).poll()
            polled += 1
        await asyncio.sleep(TICK_S)
    await asyncio.sleep(0.5)  # the last answers
    cuts = statistics.quantiles(load.took_s, n=100)
    size = load.size / max(len(load.took_s), 1)
    pipe.send((len(load.took_s), load.refused, cuts[49] * 1000, cuts[98] * 1000, size))
    for peer in peers:
        peer.close()
