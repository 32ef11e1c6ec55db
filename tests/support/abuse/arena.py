"""A broker to attack, an honest sender beside the attack, and what the two suffered."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pytest

from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.requests.sending import SendBatchRequest
from pocketmq.protocol.requests.topics import CreateTopicRequest
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader

TOPIC = "AttackedTopic"
CHUNK_SIZE = 256 * 1024
FILL_SIZE = 2000
"""Messages of one batch with which a queue is filled."""
BATCH_SIZE = 3 * 1024 * 1024
"""Bytes of bodies and properties of one such batch."""

REFERENCE_CALIBRATION_MS = 0.20
"""What `measured_broker.calibration_ms` gives on the machine for which the bars are set."""

HONEST_SIZE, HONEST_INTERVAL_MS = 1000, 5


class Toll(NamedTuple):
    """What an attack did to the broker and to the honest sender.

    Attributes:
        calls: function calls of the longest turn; None unless they were counted.
        work_ms: CPU time of the longest turn, scaled to the machine of the bars; None when calls
            were counted.
        honest_ms: the honest sender's latencies, sorted; empty without one.
    """

    calls: int | None
    work_ms: float | None
    honest_ms: list[float]

    def honest_percentile_ms(self, share: float) -> float:
        """A percentile of the latencies, as a share of 1."""
        return self.honest_ms[min(int(len(self.honest_ms) * share), len(self.honest_ms) - 1)]


class RawConnection:
    """One connection of an attacker, on which anything can be sent.

    Args:
        reader, writer: the connection's streams.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = frames.FrameParser()
        self._opaque = 0

    async def write(self, data: bytes) -> None:
        """Sends bytes; returns when most of them have left."""
        self._writer.write(data)
        await self._writer.drain()

    async def read(self) -> Command | None:
        """The next command of the broker; None once the broker has closed the connection."""
        while (command := self._parser.next_command()) is None:
            chunk = await self._reader.read(CHUNK_SIZE)
            if not chunk:
                return None
            self._parser.feed(chunk)
        return command

    async def read_many(self, count: int) -> None:
        """Reads so many commands, and keeps none."""
        for _ in range(count):
            assert await self.read() is not None, "the broker has closed the connection"

    def frame(self, request: RequestHeader, body: bytes = b"") -> bytes:
        """A request as a frame, with an opaque of its own."""
        self._opaque += 1
        command = Command(request.code, opaque=self._opaque, header=request, body=body)
        return frames.encode(command)

    async def call(self, request: RequestHeader, body: bytes = b"") -> Command:
        """Sends a request and returns the next answer, whatever its code."""
        await self.write(self.frame(request, body))
        answer = await self.read()
        assert answer is not None, "the broker has closed the connection"
        return answer

    async def ask(self, request: RequestHeader, body: bytes = b"") -> Command:
        """The same; the answer must be success."""
        answer = await self.call(request, body)
        assert answer.code == 0, answer
        return answer

    def close(self) -> None:
        """Closes the connection; may be called again."""
        self._writer.close()


class Arena:
    """A broker in a process of its own: ``async with Arena(...) as arena:``.

    An attack prepares the broker, enters `measured`, and attacks.

    Args:
        directory: of the broker's data.
        size: how large the attack is to be, in a unit of its own.
        is_whole: whether the CPU time of each turn is measured, beside an honest sender; otherwise
            calls are counted.

    Attributes:
        size, is_whole: as given.
        toll: what the attack did; there once it was measured.
    """

    def __init__(self, directory: Path, size: int, *, is_whole: bool) -> None:
        self.size, self.is_whole = size, is_whole
        self.toll: Toll | None = None
        self._directory = directory
        self._stack = AsyncExitStack()
        self._calibration_ms = 0.0
        self._host, self._port, self._grpc_port = "", 0, 0

    async def __aenter__(self) -> Arena:
        unit = "work" if self.is_whole else "calls"
        self._broker = await self._started("measured_broker", str(self._directory), unit)
        started = await _told(self._broker)
        self._host, self._port = split_address(started["address"])
        self._grpc_port = started["grpc_port"]
        self._calibration_ms = started["calibration_ms"]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _started(self, script: str, *words: str) -> asyncio.subprocess.Process:
        """Starts a script that lies beside this module, and ends it with the arena."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).with_name(f"{script}.py")), *words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=64 * 1024 * 1024,
        )  # fmt: skip

        async def end() -> None:
            assert process.stdin is not None
            process.stdin.close()
            assert await process.wait() == 0, f"{script} failed"

        self._stack.push_async_callback(end)
        return process

    async def connect(self) -> RawConnection:
        """A connection to the broker, which closes with the arena."""
        connection = RawConnection(*await asyncio.open_connection(self._host, self._port))
        self._stack.callback(connection.close)
        return connection

    async def streams_to_grpc(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the broker's gRPC port, which closes with the arena."""
        reader, writer = await asyncio.open_connection(self._host, self._grpc_port)
        self._stack.callback(writer.close)
        return reader, writer

    async def create_topic(self, queues: int = 1, topic: str = TOPIC) -> None:
        """Creates a topic."""
        connection = await self.connect()
        await connection.ask(
            CreateTopicRequest(topic=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6)
        )

    async def fill(self, count: int, body: bytes = b"x", properties: str = "") -> None:
        """Puts so many messages into queue 0 of the attacked topic."""
        connection = await self.connect()
        at_once = min(FILL_SIZE, BATCH_SIZE // (len(body) + len(properties)))
        for first in range(0, count, at_once):
            entries = [(0, body, properties.encode())] * min(at_once, count - first)
            await connection.ask(batch_request(), encode_batch(entries))

    @asynccontextmanager
    async def measured(
        self, honest_size: int = HONEST_SIZE, honest_interval_ms: int = HONEST_INTERVAL_MS
    ) -> AsyncIterator[None]:
        """Measures what happens within.

        Args:
            honest_size: bytes of each message of the honest sender.
            honest_interval_ms: between two of its sends.
        """
        honest = None
        if self.is_whole:
            words = map(str, (self._host, self._port, honest_size, honest_interval_ms))
            honest = await self._started("honest_sender", *words)
            assert honest.stdout is not None
            assert await honest.stdout.readline()
        await self._command("begin")
        yield
        longest = await self._command("end")
        honest_ms: list[float] = []
        if honest is not None:
            assert honest.stdin is not None
            honest.stdin.close()
            assert honest.stdout is not None
            honest_ms = json.loads(await honest.stdout.readline())
        if self.is_whole:
            scale = REFERENCE_CALIBRATION_MS / self._calibration_ms
            self.toll = Toll(None, longest * scale, honest_ms)
        else:
            self.toll = Toll(int(longest), None, honest_ms)

    async def _command(self, word: str) -> float:
        assert self._broker.stdin is not None
        self._broker.stdin.write(f"{word}\n".encode())
        return float((await _told(self._broker))["longest"])


async def _told(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "the broker has ended"
    told: dict[str, Any] = json.loads(line)
    return told


def batch_request(topic: str = TOPIC, queue_id: int = 0) -> SendBatchRequest:
    """The header of a batch for a queue of the attacked topic."""
    return SendBatchRequest(
        producer_group="attackers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=queue_id,
        born_timestamp=1_700_000_000_000,
        properties="",
        batch=True,
    )


class Attack(NamedTuple):
    """An attack on a broker.

    Attributes:
        name: in the table.
        strike: prepares the broker, then attacks it within `Arena.measured`.
        whole: its size when it is measured.
        slice: its size when calls are counted: small, yet more than one turn may do; None for an
            attack on something else than the loop, which calls do not show.
    """

    name: str
    strike: Callable[[Arena], Awaitable[None]]
    whole: int
    slice: int | None


TOLLS = pytest.StashKey[list[tuple[str, Toll]]]()
"""What each attack of a run did, by its name."""
