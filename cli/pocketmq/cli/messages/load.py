"""The command `pocketmq bench`, which measures sends and pulls of one client."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, print_rows
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run

COLUMNS = ("what", "messages", "seconds", "perSecond", "medianMs", "p99Ms", "maxMs")


def bench(
    topic: Annotated[str, typer.Option(help="Topic to use; it is created if need be.")] = "Bench",
    size: Annotated[int, typer.Option(help="Bytes of a body.")] = 128,
    in_flight: Annotated[int, typer.Option(help="Sends under way together.")] = 64,
    batch: Annotated[int, typer.Option(help="Messages of one send; 1: no batches.")] = 1,
    messages: Annotated[int, typer.Option(help="How many messages in all.")] = 100_000,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send messages, then pull them all, and print rates and latencies."""
    for name, value in (("size", size), ("in-flight", in_flight), ("batch", batch)):
        if value < 1:
            raise UsageError(f"--{name} is {value}: it must be at least 1")
    rows = [run(_send(topic, size, in_flight, batch, messages, namesrv))]
    rows.append(run(_pull(topic, messages, namesrv)))
    print_rows(rows, COLUMNS, output)


async def _send(
    topic: str, size: int, in_flight: int, batch: int, count: int, namesrv: str
) -> dict[str, Any]:
    from pocketmq.client import Message, Producer

    clock = SystemClock()
    body = b"x" * size
    latencies_s: list[float] = []
    left = count

    async with Producer("pocketmq_bench", namesrv) as producer:

        async def worker() -> None:
            nonlocal left
            while left > 0:
                n = min(batch, left)
                left -= n
                started = clock.monotonic()
                if n == 1:
                    await producer.send(Message(topic, body))
                else:
                    await producer.send_batch([Message(topic, body) for _ in range(n)])
                latencies_s.append(clock.monotonic() - started)

        started = clock.monotonic()
        await asyncio.gather(*(worker() for _ in range(in_flight)))
        seconds = clock.monotonic() - started
    what = f"send, {in_flight} in flight" + (f", batches of {batch}" if batch > 1 else "")
    return _row(what, count, seconds, latencies_s)


async def _pull(topic: str, count: int, namesrv: str) -> dict[str, Any]:
    from pocketmq.client import PullConsumer

    clock = SystemClock()
    latencies_s: list[float] = []
    seen = 0
    async with PullConsumer("pocketmq_bench", namesrv) as consumer:
        queues = await consumer.queues(topic)
        ends = {queue: await consumer.max_offset(queue) for queue in queues}
        share = -(-count // len(queues))

        async def drain(queue: Any) -> None:
            nonlocal seen
            offset = max(await consumer.min_offset(queue), ends[queue] - share)
            while offset < ends[queue]:
                started = clock.monotonic()
                result = await consumer.pull(queue, offset)
                latencies_s.append(clock.monotonic() - started)
                seen += len(result.messages)
                offset = result.next_offset

        started = clock.monotonic()
        await asyncio.gather(*(drain(queue) for queue in queues))
        seconds = clock.monotonic() - started
    return _row(f"pull, {len(queues)} queues side by side", seen, seconds, latencies_s)


def _row(what: str, messages: int, seconds: float, latencies_s: list[float]) -> dict[str, Any]:
    ordered = sorted(latencies_s) or [0.0]

    def at(share: float) -> float:
        return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 3)

    return {
        "what": what,
        "messages": messages,
        "seconds": round(seconds, 2),
        "perSecond": round(messages / seconds) if seconds else 0,
        "medianMs": at(0.5),
        "p99Ms": at(0.99),
        "maxMs": at(1.0),
    }
