"""Measures backups of a running broker: how fast they and a restore are, and what senders lose.

    python bench/backup.py [--size MB] [--body BYTES] [--seconds S] [--rate 50M]

Prints a line of JSON: MB a second of a full backup, of an incremental one, of the check of both and
of a restore, which is checked, too; how long an incremental backup takes when nothing is new; and
messages a second of 64 senders alone, during a full backup, and during one with `--rate`. MB are
of records with their index entries, and seconds do not count the start of the command, but for
`nothing_new_s`. The system's cache holds what was just written: figures of disks want a `--size`
beyond the memory of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from own_cluster import Cluster, cluster_in

from pocketmq.client import Admin, Message, Producer

COMMAND = (sys.executable, "-m", "pocketmq.cli.main", "store")
TOPIC, QUEUES = "Bench", 8
BATCH_SIZE = 512 * 1024
FILLERS, SENDERS = 8, 64
MB = 1e6


async def fill(namesrv: str, size: int, body_size: int) -> None:
    """Sends so many bytes of bodies, in batches."""
    count = max(1, BATCH_SIZE // (body_size + 200))
    left = max(1, size // (body_size * count))
    body = bytes(range(256)) * (body_size // 256 + 1)
    async with Producer("bench-backup", namesrv) as producer:

        async def filler() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                await producer.send_batch([Message(TOPIC, body[:body_size])] * count)

        await asyncio.gather(*(filler() for _ in range(FILLERS)))


class Sent:
    """Counts what senders have sent."""

    count = 0
    is_over = False


@asynccontextmanager
async def senders(namesrv: str) -> AsyncIterator[Sent]:
    """Sends small messages, one after the other from each of many senders."""
    sent = Sent()
    async with Producer("bench-senders", namesrv) as producer:

        async def sender() -> None:
            while not sent.is_over:
                await producer.send(Message(TOPIC, b"x" * 128))
                sent.count += 1

        tasks = [asyncio.create_task(sender()) for _ in range(SENDERS)]
        try:
            yield sent
        finally:
            sent.is_over = True
            await asyncio.gather(*tasks)


async def store(*words: str) -> tuple[dict[str, Any], float]:
    """Runs a command of `pocketmq store`: what it tells, and how many seconds it took."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *words, "-o", "json", stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, words
    return json.loads(out), time.perf_counter() - begun


async def rate_of_senders(sent: Sent, seconds: float) -> float:
    begun, before = time.perf_counter(), sent.count
    await asyncio.sleep(seconds)
    return (sent.count - before) / (time.perf_counter() - begun)


async def rate_during(sent: Sent, *words: str) -> tuple[float, float]:
    """The senders' rate during a backup into a new directory, and MB a second of this."""
    before = sent.count
    told, took_s = await store("backup", *words)
    rate = (sent.count - before) / took_s
    return rate, told["copied"] / MB / (told["durationMs"] / 1000)


async def measure(target: Cluster, directory: Path, given: argparse.Namespace) -> dict[str, float]:
    """All figures by name."""
    size = given.size * 1_000_000
    asked = ("--broker", target.broker, "--namesrv", target.namesrv)
    backups, restored = str(directory / "backups"), directory / "restored"
    async with Admin(target.namesrv) as admin:
        await admin.create_topic(TOPIC, QUEUES)
    await fill(target.namesrv, size, given.body)
    out: dict[str, float] = {}
    full, _ = await store("backup", backups, *asked)
    took_s = full["durationMs"] / 1000
    out["size_mb"] = full["copied"] / MB
    out["full_mb_s"], out["full_s"] = full["copied"] / MB / took_s, took_s
    _, out["nothing_new_s"] = await store("backup", backups, *asked)
    await fill(target.namesrv, size // 10, given.body)
    new, _ = await store("backup", backups, *asked)
    out["incremental_mb_s"] = new["copied"] / MB / (new["durationMs"] / 1000)
    checked, took_s = await store("check", backups)
    out["check_mb_s"] = checked["size"] / MB / took_s
    made, _ = await store("restore", backups, str(restored))
    took_s = made["restoreDurationMs"] / 1000
    out["restore_mb_s"], out["restore_s"] = made["size"] / MB / took_s, took_s
    await store("check", str(restored))
    shutil.rmtree(restored)

    async with senders(target.namesrv) as sent:
        await rate_of_senders(sent, 1)
        out["senders_alone"] = await rate_of_senders(sent, given.seconds)
        out["senders_during"], out["loaded_mb_s"] = await rate_during(
            sent, str(directory / "loaded"), *asked
        )
        out["senders_during_rated"], out["rated_mb_s"] = await rate_during(
            sent, str(directory / "rated"), "--rate", given.rate, *asked
        )
    return {name: round(value, 2) for name, value in out.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2000, help="MB of bodies")
    parser.add_argument("--body", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the senders alone")
    parser.add_argument("--rate", default="50M", help="of the slower backup under load")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as directory,
        cluster_in(f"{directory}/data") as target,
    ):
        print(json.dumps(uvloop.run(measure(target, Path(directory), given))))


if __name__ == "__main__":
    main()
