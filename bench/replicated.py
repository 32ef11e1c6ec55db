"""Measures a broker set of two beside RocketMQ's SYNC_MASTER with one slave.

``python bench/replicated.py compare --reference DIR --lib DIR/lib`` drives both in alternation with
RocketMQ's own load generator; both answer a send when both members have it (inSyncReplicas=2).
``--role ASYNC_MASTER`` has neither of them wait; ``--alone`` puts one broker of ours in the place
of RocketMQ: what replication costs. ``python bench/replicated.py catch-up`` has a follower that was
away catch up while senders go on at a steady rate. The folders are as in ``bench/run.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from pocketmq.client import Admin, Message, Producer
from pocketmq.protocol.errors import PocketMQError

NAMESRV_PORT, BROKER_PORT = 19876, 20911
ADDRESS = f"127.0.0.1:{NAMESRV_PORT}"
START_S_MAX = 60.0
BODY_SIZE = 1024
BACKLOG_MB = 1024
SENDERS = 16
PACED_RATE = 2000
"""Messages a second that the senders send while a follower catches up."""

SETTLE_S, PACE_S = 5.0, 10.0
JAVA_MEMORY = ["-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g"]


def main() -> None:
    """Runs what the first argument names."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    compare = verbs.add_parser("compare", help="beside RocketMQ, or beside one broker of ours")
    compare.add_argument("--reference", type=Path, required=True)
    compare.add_argument("--lib", type=Path, required=True)
    compare.add_argument("--rows", default="sync64,sync1")
    compare.add_argument("--rounds", type=int, default=2)
    compare.add_argument("--seconds", type=int, default=20)
    compare.add_argument("--warm", type=int, default=15)
    compare.add_argument("--alone", action="store_true")
    compare.add_argument("--role", default="SYNC_MASTER", choices=("SYNC_MASTER", "ASYNC_MASTER"))
    compare.add_argument("--flush", default="ASYNC_FLUSH", choices=("ASYNC_FLUSH", "SYNC_FLUSH"))
    catch_up = verbs.add_parser("catch-up", help="a follower that was away comes back")
    catch_up.add_argument("--megabytes", type=int, default=BACKLOG_MB)
    serve = verbs.add_parser("serve", help="a cluster in the foreground, as load.py wants it")
    serve.add_argument("which", choices=("ours", "alone", "theirs"))
    serve.add_argument("folder", type=Path)
    serve.add_argument("--lib", type=Path)
    serve.add_argument("--role", default="SYNC_MASTER")
    serve.add_argument("--flush", default="ASYNC_FLUSH")
    given = parser.parse_args()
    match given.verb:
        case "compare":
            _compare(given)
        case "catch-up":
            asyncio.run(_measure_catch_up(given.megabytes))
        case _:
            _serve(given)


def _compare(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as work:
        base = [sys.executable, __file__, "serve"]
        options = ["--role", given.role, "--flush", given.flush]
        ours = shlex.join([*base, "ours", f"{work}/ours", *options])
        other = shlex.join([*base, "alone", f"{work}/alone", *options])
        if not given.alone:
            lib = ["--lib", str(given.lib.absolute())]
            other = shlex.join([*base, "theirs", f"{work}/theirs", *options, *lib])
        subprocess.run(
            [
                sys.executable, str(given.reference / "load.py"), "--lib", str(given.lib),
                "--rows", given.rows, "--rounds", str(given.rounds),
                "--seconds", str(given.seconds), "--warm", str(given.warm),
                "--namesrv", ADDRESS, f"set=exec {ours}",
                f"{'alone' if given.alone else 'rocketmq'}=exec {other}",
            ],
            check=True,
        )  # fmt: skip


# -- clusters ----------------------------------------------------------------------------------


def _serve(given: argparse.Namespace) -> None:
    """Runs a cluster until it is told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if given.which == "theirs":
            _start_theirs(stack, given, folder)
        else:
            count = 2 if given.which == "ours" else 1
            _start_ours(stack, folder, count, role=given.role, flush=given.flush)
        print("up", flush=True)
        signal.pause()


def _run(stack: ExitStack, command: list[str], log: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, stdout=stack.enter_context(log.open("wb")), stderr=subprocess.STDOUT
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _start_ours(
    stack: ExitStack, folder: Path, count: int, *, role: str, flush: str
) -> list[subprocess.Popen[bytes]]:
    """Starts a name server with an arbiter and a set of so many, or one broker of its own."""
    command = [sys.executable, "-m", "pocketmq.cli.main"]
    names = folder / "namesrv.yaml"
    names.write_text(f"listenPort: {NAMESRV_PORT}\narbiterPath: {folder}/arbiter.db\n")
    processes = [_run(stack, [*command, "namesrv", "-c", str(names)], folder / "namesrv.log")]
    processes += [
        _start_member(stack, folder, number, count, role=role, flush=flush)
        for number in range(1, count + 1)
    ]
    _wait_for(lambda: _in_sync(count))
    return processes


def _start_member(
    stack: ExitStack, folder: Path, number: int, count: int, *, role: str, flush: str
) -> subprocess.Popen[bytes]:
    lines = [
        "brokerName: broker-a", f"namesrvAddr: {ADDRESS}", "grpcServerPort: -1",
        f"listenPort: {BROKER_PORT + 100 * number}", f"storePathRootDir: {folder}/{number}",
        f"flushDiskType: {flush}", "bindAddress: 127.0.0.1", "brokerIP1: 127.0.0.1",
    ]  # fmt: skip
    if count > 1:
        lines += [
            f"brokerId: {number}",
            "enableControllerMode: true",
            f"brokerRole: {role}",
            "minInSyncReplicas: 1",
        ]
    config = folder / f"broker-{number}.yaml"
    config.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "pocketmq.cli.main", "broker", "-v", "-c", str(config)]
    return _run(stack, command, folder / f"broker-{number}.log")


def _in_sync(count: int) -> bool:
    """Whether a producer finds the set, and all of its members are registered."""
    try:
        return asyncio.run(_members()) >= count
    except PocketMQError:
        return False


async def _members() -> int:
    async with Admin(ADDRESS) as admin:
        info = await admin.cluster_info()
    return sum(len(data.broker_addrs) for data in info.broker_addr_table.values())


def _start_theirs(stack: ExitStack, given: argparse.Namespace, folder: Path) -> None:
    """Starts RocketMQ's name server, a master and its slave."""
    home = folder / "home" / "conf"
    home.mkdir(parents=True, exist_ok=True)
    quiet = '<configuration><root level="ERROR"/></configuration>'
    for name in ("namesrv", "broker"):
        (home / f"rmq.{name}.logback.xml").write_text(quiet)
    java = ["env", f"ROCKETMQ_HOME={folder}/home", "java", f"-Duser.home={folder}"]
    path = ["-cp", f"{given.lib}/*"]
    (folder / "namesrv.conf").write_text(f"listenPort={NAMESRV_PORT}\n")
    main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
    logback = f"-Drmq.logback.configurationFile={home}/rmq.namesrv.logback.xml"
    command = [*java, "-Xmx256m", logback, *path, main_class, "-c", f"{folder}/namesrv.conf"]
    _run(stack, command, folder / "namesrv.log")
    _wait_for(partial(_has_started, folder / "namesrv.log"))
    for number, role in enumerate((given.role, "SLAVE")):
        data = folder / f"store-{number}"
        lines = [
            "brokerClusterName=DefaultCluster", "brokerName=broker-a", f"brokerId={number}",
            f"brokerRole={role}", f"flushDiskType={given.flush}", "brokerIP1=127.0.0.1",
            f"listenPort={BROKER_PORT + 1000 * number}", f"namesrvAddr={ADDRESS}",
            f"haListenPort={BROKER_PORT + 1000 * number + 1}", "brokerIP2=127.0.0.1",
            f"storePathRootDir={data}", f"storePathCommitLog={data}/commitlog",
            "mappedFileSizeCommitLog=104857600", "diskMaxUsedSpaceRatio=95",
            "autoCreateTopicEnable=true", "inSyncReplicas=2",
        ]  # fmt: skip
        config = folder / f"broker-{number}.conf"
        config.write_text("\n".join(lines) + "\n")
        main_class = "org.apache.rocketmq.broker.BrokerStartup"
        logback = f"-Drmq.logback.configurationFile={home}/rmq.broker.logback.xml"
        log = folder / f"broker-{number}.log"
        _run(stack, [*java, *JAVA_MEMORY, logback, *path, main_class, "-c", str(config)], log)
        _wait_for(partial(_has_started, log))
    time.sleep(SETTLE_S)  # until the slave is connected and has the topics


def _has_started(log: Path) -> bool:
    return "boot success" in log.read_text()


def _wait_for(is_there: Callable[[], bool]) -> None:
    end_s = time.monotonic() + START_S_MAX
    while not is_there():
        if time.monotonic() > end_s:
            raise TimeoutError("the cluster does not come up")
        time.sleep(0.05)


# -- catching up -------------------------------------------------------------------------------


async def _measure_catch_up(megabytes: int) -> None:
    """Has a follower come back that lacks so many megabytes, while senders go on."""
    with tempfile.TemporaryDirectory() as work, ExitStack() as stack:
        folder = Path(work)
        processes = await asyncio.to_thread(
            _start_ours, stack, folder, 2, role="SYNC_MASTER", flush="ASYNC_FLUSH"
        )
        async with Producer("bench", ADDRESS) as producer:
            await producer.send(Message("Backlog", b"x"))
            follower = 2 if _leads(folder / "broker-1.log") else 1
            memory = psutil.Process(processes[follower].pid).memory_info().rss / 1e6
            print(f"a follower at rest takes {memory:.0f} MB")
            processes[follower].kill()
            processes[follower].wait()
            await _fill(producer, megabytes)
            quiet = await _pace(producer, PACE_S)
            begun_s = time.monotonic()
            _start_member(stack, folder, follower, 2, role="SYNC_MASTER", flush="ASYNC_FLUSH")
            paces: list[Pace] = []
            log = folder / f"broker-{3 - follower}.log"
            before = log.read_text().count("in-sync set of broker-a: [1, 2]")
            while log.read_text().count("in-sync set of broker-a: [1, 2]") == before:
                paces.append(await _pace(producer, 0.5))
                assert time.monotonic() < begun_s + 600, "the follower does not catch up"
            took_s = time.monotonic() - begun_s
        share = statistics.mean(pace.rate for pace in paces) / quiet.rate
        p99_ms = statistics.median(pace.p99_ms for pace in paces)
        print(
            f"{megabytes} MB in {took_s:.1f} s, {megabytes / took_s:.0f} MB/s, while senders keep "
            f"{share:.0%} of {quiet.rate:.0f} msg/s, p99 {quiet.p99_ms:.1f} -> {p99_ms:.1f} ms"
        )


def _leads(log: Path) -> bool:
    return re.search(r"member \d+ leads broker-a", log.read_text()) is not None


async def _fill(producer: Producer, megabytes: int) -> None:
    body = bytes(1024 * 1024 - 1024)
    for _ in range(megabytes):
        await producer.send(Message("Backlog", body))


class Pace(NamedTuple):
    """Messages a second that were sent, and the time that the slowest hundredth took at least."""

    rate: float
    p99_ms: float


async def _pace(producer: Producer, seconds: float) -> Pace:
    """Has some senders send at a steady rate."""
    begun_s, times_ms = time.monotonic(), list[float]()
    interval_s = SENDERS / PACED_RATE

    async def send() -> None:
        due_s = begun_s
        while due_s < begun_s + seconds:
            await asyncio.sleep(max(due_s - time.monotonic(), 0))
            due_s += interval_s
            sent_s = time.monotonic()
            await producer.send(Message("Paced", bytes(BODY_SIZE)))
            times_ms.append((time.monotonic() - sent_s) * 1000)

    await asyncio.gather(*(send() for _ in range(SENDERS)))
    took_s = time.monotonic() - begun_s
    return Pace(len(times_ms) / took_s, sorted(times_ms)[len(times_ms) * 99 // 100])


if __name__ == "__main__":
    main()
