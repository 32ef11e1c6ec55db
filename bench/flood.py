"""What a flood of unsigned requests leaves of a signed sender's rate and latency.

``python bench/flood.py`` starts a secure cluster, sends signed messages for some seconds alone and
then beside 100 connections that send unsigned requests as fast as they are read, in alternation.
Bars: at least 80 % of the rate, and a p99 below 50 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from pocketmq.client import Admin, Message, Producer, read_credentials
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.frames import encode

TOPIC = "Flooded"
RATE_BAR, P99_BAR_MS = 0.8, 50.0
BURST = 64
"""Requests that the flood writes at once."""


def main() -> None:
    """Measures, prints one line a round and the medians; exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--senders", type=int, default=16)
    parser.add_argument("--flood", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.flood:
        asyncio.run(_flood(given.flood, given.connections))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pocketmq.cli.main", "up", "--secure", "--data", folder,
                   "--namesrv-port", "0", "--broker-port", "0", "-o", "json"]  # fmt: skip
        environment = {"XDG_CONFIG_HOME": folder, "PATH": ""}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as server:
            try:
                assert server.stdout is not None
                up = json.loads(server.stdout.readline())
                is_held = asyncio.run(_measure(up, Path(folder), given))
            finally:
                server.terminate()
    sys.exit(0 if is_held else 1)


async def _measure(up: dict[str, object], folder: Path, given: argparse.Namespace) -> bool:
    credentials = read_credentials(folder / "secure" / "admin.key")
    namesrv, brokers = str(up["namesrv"]), up["brokers"]
    assert isinstance(brokers, dict)
    (address,) = brokers.values()
    async with (
        Admin(namesrv, credentials=credentials) as admin,
        Producer("senders", namesrv, credentials=credentials) as producer,
    ):
        await admin.create_topic(TOPIC, 4)
        await _send(producer, 1.0, given.senders)
        ratios, latencies = [], []
        for number in range(given.rounds):
            alone, alone_ms = await _send(producer, given.seconds, given.senders)
            flood = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--flood", address,
                "--connections", str(given.connections),
            )  # fmt: skip
            try:
                await asyncio.sleep(1.0)
                beside, beside_ms = await _send(producer, given.seconds, given.senders)
            finally:
                flood.terminate()
                await flood.wait()
            ratios.append(beside / alone)
            latencies.append(beside_ms)
            print(
                f"round {number + 1}: alone {alone:.0f} msg/s, p99 {alone_ms:.1f} ms; beside "
                f"{beside:.0f} msg/s, p99 {beside_ms:.1f} ms; {beside / alone:.2f}x",
                flush=True,
            )
    ratio, latency = median(ratios), median(latencies)
    print(f"median {ratio:.2f}x (bar {RATE_BAR}), p99 {latency:.1f} ms (bar {P99_BAR_MS})")
    return ratio >= RATE_BAR and latency < P99_BAR_MS


async def _send(producer: Producer, seconds: float, senders: int) -> tuple[float, float]:
    """Sends for some seconds; returns messages a second and the p99 in milliseconds."""
    end_s = time.monotonic() + seconds
    taken_ms: list[float] = []

    async def one() -> None:
        message = Message(TOPIC, b"x" * 100)
        while (begin_s := time.monotonic()) < end_s:
            await producer.send(message)
            taken_ms.append((time.monotonic() - begin_s) * 1000)

    await asyncio.gather(*(one() for _ in range(senders)))
    return len(taken_ms) / seconds, quantiles(taken_ms, n=100)[98]


async def _flood(address: str, count: int) -> None:
    host, _, port = address.rpartition(":")
    request = SendMessageV2Request(
        producer_group="flood", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, born_timestamp=0, properties="",
    )  # fmt: skip
    burst = encode(Command(request.code, header=request, body=b"x" * 100)) * BURST

    async def one() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                reading = asyncio.ensure_future(_read_all(reader))
                while not reading.done():
                    writer.write(burst)
                    await writer.drain()
            except OSError:
                await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(count)))


async def _read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


if __name__ == "__main__":
    main()
