"""Measures what size costs: one topic is filled with gigabytes, read, searched and thrown away.

    python bench/size.py [--gigabytes N] [--directory DIR]

Prints a line of JSON: how fast pulls from the start, the middle and the end of the queues are, with
what they read dropped from the page cache before, and again with it there; how long searches by
time and by key take; how long a start takes after a clean stop and after a kill; the broker's
memory; and the latency of sends to another topic, quiet and while all finished segments of the
large one are removed. A gigabyte gives a quick look, twenty are what `bench/RESULTS.md` tells of.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from own_cluster import memory_kb

from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import encode_record
from pocketmq.protocol.requests.brokers import UpdateBrokerConfigRequest
from pocketmq.protocol.requests.offsets import (
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetResponse,
    SearchOffsetRequest,
)
from pocketmq.protocol.requests.pulling import (
    PULL_SUBSCRIPTION,
    PullMessageRequest,
    PullMessageResponse,
)
from pocketmq.protocol.requests.queries import QueryMessageRequest
from pocketmq.protocol.requests.sending import BulkAppendRequest, SendMessageV2Request
from pocketmq.protocol.requests.topics import CreateTopicRequest, RuntimeInfoRequest
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool

TOPIC, OTHER_TOPIC = "Large", "Quiet"
QUEUES = 4
BODY_SIZE = 1024
BULK_RECORDS = 1000
FILL_IN_FLIGHT = 4
TIMEOUT_MS = 60_000

PULL_SIZE = 256 * 1024 * 1024
"""Bytes that are pulled at each place, or an eighth of the topic if that is less."""

ROUNDS = 3
SEARCHES = 200

SENDS_PER_S = 1000
BURST_S = 0.005
CLEAN_INTERVAL_MS = 2000


class Run(NamedTuple):
    """A broker in a process of its own."""

    pid: int
    address: str
    start_s: float


@contextmanager
def broker_in(directory: Path, segment_size: int) -> Iterator[Run]:
    """Runs a broker on a data directory, and stops it unless it was killed."""
    settings = {
        "listenPort": 0,
        "bindAddress": "127.0.0.1",
        "storePathRootDir": str(directory),
        "segmentSize": segment_size,
        "cleanResourceInterval": CLEAN_INTERVAL_MS,
    }
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pocketmq.cli.main", "broker", "--settings", json.dumps(settings)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("up "), line
        yield Run(process.pid, line.split("=", 1)[1].strip(), time.perf_counter() - begun)
    finally:
        process.terminate()
        process.wait()


class Client:
    """Speaks to one broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._pool = ConnectionPool(SystemClock())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def ask(self, request: RequestHeader, body: bytes = b"") -> Any:
        return await self._pool.ask(self._address, request, TIMEOUT_MS, body)

    async def bounds(self, queue_id: int) -> tuple[int, int]:
        first = await self.ask(MinOffsetRequest(topic=TOPIC, queue_id=queue_id))
        last = await self.ask(MaxOffsetRequest(topic=TOPIC, queue_id=queue_id))
        return first.read(OffsetResponse).offset, last.read(OffsetResponse).offset

    async def figures(self) -> dict[str, str]:
        return dict(KVTable.decode((await self.ask(RuntimeInfoRequest())).body).table)

    async def search_time(self, queue_id: int, timestamp: int, boundary: str) -> int:
        request = SearchOffsetRequest(
            topic=TOPIC, queue_id=queue_id, timestamp=timestamp, boundary_type=boundary
        )
        return int((await self.ask(request)).read(OffsetResponse).offset)


def key_of(number: int) -> str:
    return f"key-{number:012d}"


def bulk_body(first: int, queue_id: int) -> bytes:
    """Records as a bulk append carries them, each with a key of its own."""
    body = random.Random(first).randbytes(BODY_SIZE)
    return b"".join(
        encode_record(
            topic=TOPIC.encode(), queue_id=queue_id, flag=0, queue_offset=0, physical_offset=0,
            sys_flag=0, born_timestamp=1_700_000_000_000, born_host=bytes(8), store_timestamp=0,
            store_host=bytes(8), reconsume_times=0, prepared_transaction_offset=0, body=body,
            properties=props.encode({props.KEYS: key_of(number)}).encode(),
        )
        for number in range(first, first + BULK_RECORDS)
    )  # fmt: skip


async def fill(client: Client, size: int) -> int:
    """Fills the topic; returns how many messages that took."""
    await client.ask(CreateTopicRequest(topic=TOPIC, read_queue_nums=QUEUES,
                                        write_queue_nums=QUEUES, perm=6))  # fmt: skip
    sent = left = -(-size // len(bulk_body(0, 0)))

    async def sender() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            first, queue_id = left * BULK_RECORDS, left % QUEUES
            request = BulkAppendRequest(
                producer_group="bench", topic=TOPIC, queue_id=queue_id, count=BULK_RECORDS
            )
            await client.ask(request, bulk_body(first, queue_id))

    await asyncio.gather(*(sender() for _ in range(FILL_IN_FLIGHT)))
    return sent * BULK_RECORDS


def files_of(directory: Path, names: str) -> list[Path]:
    return list(directory.glob(f"queues/{TOPIC}/*/{names}"))


async def until_indexed(directory: Path) -> float:
    """Seconds until every finished segment has its keys in one run, as nothing else goes on."""
    begun = time.perf_counter()
    sizes: list[int] = []
    while True:
        sizes.append(sum(p.stat().st_size for p in files_of(directory, "*.keys")))
        if len(sizes) > 5 and sizes[-1] == sizes[-5]:
            return time.perf_counter() - begun
        await asyncio.sleep(1)


# -- reading ---------------------------------------------------------------------------------------


def drop_page_cache(directory: Path) -> None:
    """Has the system forget what it holds of the files, as far as it is on the disk."""
    for path in files_of(directory, "*"):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


async def pulls_mb_per_s(client: Client, share: float, size: int) -> float:
    """Pulls so many bytes from each queue's place at that share of its messages."""

    async def pull(queue_id: int) -> int:
        first, last = await client.bounds(queue_id)
        wanted, got = size // QUEUES, 0
        offset = first + round((last - first) * share)
        offset = max(min(offset, last - wanted // BODY_SIZE), first)
        while got < wanted and offset < last:
            request = PullMessageRequest(
                consumer_group="bench", topic=TOPIC, queue_id=queue_id, queue_offset=offset,
                sys_flag=PULL_SUBSCRIPTION, subscription="*", max_msg_nums=32,
            )  # fmt: skip
            answer = await client.ask(request)
            got += len(answer.body)
            offset = answer.read(PullMessageResponse).next_begin_offset
        return got

    begun = time.perf_counter()
    sizes = await asyncio.gather(*map(pull, range(QUEUES)))
    return sum(sizes) / 1e6 / (time.perf_counter() - begun)


async def measure_pulls(client: Client, directory: Path, size: int) -> dict[str, float]:
    wanted = min(PULL_SIZE, size // 8)
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, share in (("start", 0.0), ("middle", 0.5), ("end", 1.0)):
            drop_page_cache(directory)
            for kind in ("cold", "warm"):
                rate = await pulls_mb_per_s(client, share, wanted)
                rates.setdefault(f"pull_{kind}_{name}_mb_per_s", []).append(rate)
    out = {name: round(statistics.median(values), 1) for name, values in rates.items()}
    for kind in ("cold", "warm"):
        values = [out[f"pull_{kind}_{name}_mb_per_s"] for name in ("start", "middle", "end")]
        out[f"pull_{kind}_slowest_to_fastest"] = round(min(values) / max(values), 2)
    return out


async def _timed_ms(action: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await action()
    return (time.perf_counter() - begun) * 1000


async def measure_searches(
    client: Client, directory: Path, count: int, filled_ms: tuple[int, int]
) -> dict[str, float]:
    chance = random.Random(1)
    found: dict[str, list[float]] = {}

    async def by_time(boundary: str) -> None:
        queue_id, timestamp = chance.randrange(QUEUES), chance.randint(*filled_ms)
        assert 0 <= await client.search_time(queue_id, timestamp, boundary) <= count

    async def by_key() -> None:
        request = QueryMessageRequest(
            topic=TOPIC, key=key_of(chance.randrange(count)), max_num=32, begin_timestamp=0,
            end_timestamp=filled_ms[1] + 1_000_000,
        )  # fmt: skip
        assert len((await client.ask(request)).body) > BODY_SIZE

    searches: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
        ("time_lower", lambda: by_time("LOWER")),
        ("time_upper", lambda: by_time("UPPER")),
        ("key", by_key),
    )
    for name, search in searches:
        drop_page_cache(directory)
        found[name] = sorted([await _timed_ms(search) for _ in range(SEARCHES)])
    out: dict[str, float] = {}
    for name, values in found.items():
        out[f"search_{name}_median_ms"] = round(statistics.median(values), 2)
        out[f"search_{name}_max_ms"] = round(values[-1], 2)
    return out


# -- sends while old data goes ---------------------------------------------------------------------


async def send_latencies_ms(client: Client, is_over: Callable[[], bool]) -> list[float]:
    """The latency of sends at a fixed pace, counted from when each was due."""
    late: list[float] = []
    request = SendMessageV2Request(
        producer_group="bench", topic=OTHER_TOPIC, default_topic="TBW102",
        default_topic_queue_nums=QUEUES, queue_id=0, born_timestamp=1_700_000_000_000,
        properties="",
    )  # fmt: skip

    async def send(due: float) -> None:
        await client.ask(request, b"x" * 128)
        late.append((time.perf_counter() - due) * 1000)

    sends: set[asyncio.Task[None]] = set()
    begun, bursts = time.perf_counter(), 0
    while not is_over():
        due = begun + bursts * BURST_S
        bursts += 1
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        for _ in range(round(SENDS_PER_S * BURST_S)):
            task = asyncio.create_task(send(time.perf_counter()))
            sends.add(task)
            task.add_done_callback(sends.discard)
    await asyncio.gather(*sends)
    return sorted(late)


def segments_of(directory: Path) -> int:
    return len(files_of(directory, "*.log"))


def _percentiles(name: str, values: list[float]) -> dict[str, float]:
    def at(share: float) -> float:
        return round(values[min(int(len(values) * share), len(values) - 1)], 2)

    return {
        f"send_{name}_p50_ms": at(0.5),
        f"send_{name}_p99_ms": at(0.99),
        f"send_{name}_p999_ms": at(0.999),
        f"send_{name}_max_ms": round(values[-1], 2),
        f"send_{name}_count": len(values),
    }


async def measure_retention(client: Client, directory: Path, seconds: float) -> dict[str, float]:
    async def timed(kind: str) -> dict[str, float]:
        begun = time.perf_counter()
        values = await send_latencies_ms(client, lambda: time.perf_counter() - begun > seconds)
        return _percentiles(kind, values)

    await timed("warm")
    out = await timed("quiet")
    before = segments_of(directory)
    changes = f"diskSpaceFreeMin={1 << 62}\ndiskSpaceWarningLevelRatio=100\n"
    changes += "diskSpaceCleanForciblyRatio=1\n"
    await client.ask(UpdateBrokerConfigRequest(), changes.encode())
    begun = time.perf_counter()
    looked, count = begun, before

    def is_over() -> bool:
        nonlocal looked, count
        now = time.perf_counter()
        if now - looked >= 1:
            looked, count = now, segments_of(directory)
        return count <= QUEUES

    values = await send_latencies_ms(client, is_over)
    out["deleting_s"] = round(time.perf_counter() - begun, 1)
    out["segments_removed"] = before - count
    out |= _percentiles("deleting", values)
    out["p999_deleting_to_quiet"] = round(
        out["send_deleting_p999_ms"] / out["send_quiet_p999_ms"], 2
    )
    return out


# -- all of it -------------------------------------------------------------------------------------


async def measure(given: argparse.Namespace, directory: Path) -> dict[str, float]:
    """All figures by name."""
    size, segment_size = round(given.gigabytes * 1e9), given.segment_mib * 1024 * 1024
    out: dict[str, float] = {"gigabytes": given.gigabytes, "segment_mib": given.segment_mib}

    def tell(figures: dict[str, float]) -> None:
        print(json.dumps(figures), file=sys.stderr, flush=True)
        out.update(figures)

    with broker_in(directory, segment_size) as run:
        async with Client(run.address) as client:
            empty_kb, first_ms, begun = memory_kb(run.pid), time.time_ns(), time.perf_counter()
            count = await fill(client, size)
            filled_ms = (first_ms // 1_000_000, time.time_ns() // 1_000_000)
            fill_s = time.perf_counter() - begun
            tell({"messages": count, "fill_mb_per_s": round(size / 1e6 / fill_s, 1)})
            tell({"keys_indexed_s": round(await until_indexed(directory), 1)})
            tell({"memory_empty_mb": round(empty_kb / 1024, 1),
                  "memory_filled_mb": round(memory_kb(run.pid) / 1024, 1)})  # fmt: skip
    with broker_in(directory, segment_size) as run:
        async with Client(run.address) as client:
            tell({"restart_s": round(run.start_s, 2)})
            tell(await measure_pulls(client, directory, size))
            tell(await measure_searches(client, directory, count, filled_ms))
            tell({"memory_read_mb": round(memory_kb(run.pid) / 1024, 1)})
            os.kill(run.pid, signal.SIGKILL)
    with broker_in(directory, segment_size) as run:
        async with Client(run.address) as client:
            tell({"restart_after_kill_s": round(run.start_s, 2)})
            tell(await measure_retention(client, directory, given.seconds))
            figures = await client.figures()
            tell({k: float(figures[k]) for k in ("loopBlockedMaxMs", "loopBlockedTimes")
                  if k in figures})  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--segment-mib", type=int, default=64, help="segmentSize of the broker")
    parser.add_argument("--seconds", type=float, default=20, help="of the quiet sends")
    parser.add_argument("--directory", help="where the data is kept meanwhile")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pocketmq-size-", dir=given.directory) as directory:
        print(json.dumps(uvloop.run(measure(given, Path(directory) / "store"))))


if __name__ == "__main__":
    main()
