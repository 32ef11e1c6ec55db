"""Processes of servers under what looks after them: service managers, probes, rolling restarts."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
import yaml
from support.arbiters.broker_sets import HOST, UP, BrokerSet, Process, broker_set
from support.commands.here import ok
from support.interop.apache_servers import free_port
from support.interop.processes import STOP_TIMEOUT_S, running

from pocketmq.client import Producer
from pocketmq.protocol.messages.message import Message
from pocketmq.runtime.clock import SystemClock

pytestmark = pytest.mark.process

READY_TRIES_MAX = 3000
PROBE_PERIOD_S = 0.02
SENDS_BETWEEN_RESTARTS = 20


def probe(port: int, path: str = "/ready") -> tuple[int, str]:
    """What a probe is answered; 0 if nobody listens."""
    connection = http.client.HTTPConnection(HOST, port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    except OSError as e:
        return 0, str(e)
    finally:
        connection.close()


async def ready(process: Process) -> None:
    """Returns when a server's probe says that it is ready."""
    clock = SystemClock()
    for _ in range(READY_TRIES_MAX):
        found = await asyncio.to_thread(probe, process.health_port)
        if found[0] == 200:
            return
        await clock.sleep(PROBE_PERIOD_S)
    raise AssertionError(found)


class Load:
    """Sends one message after the other, and remembers which were acknowledged."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.sent: list[str] = []
        self.is_wanted = True

    async def run(self) -> None:
        """Sends until nothing more is wanted.

        Raises:
            PocketMQError: a send failed.
        """
        while self.is_wanted:
            body = f"message {len(self.sent)}"
            await self._producer.send(Message("Rolled", body.encode()))
            self.sent.append(body)

    async def further(self, count: int, task: asyncio.Task[None]) -> None:
        """Returns when so many further messages are acknowledged."""
        wanted, clock = len(self.sent) + count, SystemClock()
        while len(self.sent) < wanted:
            if task.done():
                task.result()
            await clock.sleep(PROBE_PERIOD_S)


async def rolled(cluster: BrokerSet) -> list[str]:
    """Restarts all members one by one while messages are sent; what was acknowledged."""
    async with Producer("Rolling", cluster.namesrv) as producer:
        load = Load(producer)
        sending = asyncio.create_task(load.run())
        # As a StatefulSet does it: from the last member on, each when the one before is ready.
        for member in reversed(cluster.members.values()):
            await load.further(SENDS_BETWEEN_RESTARTS, sending)
            await asyncio.to_thread(member.stop, signal.SIGTERM)
            await asyncio.to_thread(member.start)
            await ready(member)
        await load.further(SENDS_BETWEEN_RESTARTS, sending)
        load.is_wanted = False
        await sending
    return load.sent


def test_a_rolling_restart_fails_no_send(tmp_path: Path) -> None:
    with broker_set(tmp_path) as cluster:
        names = ("--namesrv", cluster.namesrv)
        for member in cluster.members.values():
            asyncio.run(ready(member))
        ok("topic", "create", "Rolled", "--queues", "2", *names)
        sent = asyncio.run(rolled(cluster))
        consumed = ok("consume", "Rolled", "-c", str(len(sent)), "--from-beginning", *names)
    assert [body for body in sent if body not in consumed] == []


def test_a_member_that_lost_its_leader_is_not_ready(tmp_path: Path) -> None:
    with broker_set(tmp_path) as cluster:
        cluster.wait_until_in_sync(1, 2)
        leader = cluster.leader(1, 2)
        assert probe(cluster.namesrvs[0].health_port) == (200, "ok")
        for process in (cluster.namesrvs[0], cluster.members[leader]):
            process.stop()  # nobody can be elected
        follower = cluster.members[3 - leader]
        for _ in range(READY_TRIES_MAX):
            found = probe(follower.health_port)
            if found[0] != 200:
                break
        assert found == (503, "not in step with the leader of its broker set")
        assert probe(follower.health_port, "/live") == (200, "ok")


def test_a_full_broker_lives_and_is_not_ready(tmp_path: Path) -> None:
    full = {"diskSpaceWarningLevelRatio": 1, "diskSpaceFreeMin": 1 << 60}
    broker = Process(
        "broker", tmp_path, "broker", {"storePathRootDir": str(tmp_path / "store"), **full}
    )
    try:
        broker.start()
        assert probe(broker.health_port) == (503, "the disk is full or fails")
        assert probe(broker.health_port, "/live") == (200, "ok")
    finally:
        broker.stop(signal.SIGTERM)


@pytest.mark.parametrize("kind", ["broker", "namesrv"])
def test_a_service_manager_is_told_of_start_life_and_stop(kind: str, tmp_path: Path) -> None:
    settings = {"listenPort": 0, "bindAddress": HOST}
    if kind == "broker":
        settings["storePathRootDir"] = str(tmp_path / "store")
    file = tmp_path / f"{kind}.yaml"
    file.write_text(yaml.safe_dump(settings))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(STOP_TIMEOUT_S)
        command = [sys.executable, "-m", "pocketmq.cli.main", kind, "-c", str(file)]
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with running(command, UP, environment=environment) as up:
            assert manager.recv(4096).decode() == f"READY=1\nSTATUS={up.group()}"
            assert [manager.recv(4096) for _ in range(2)] == [b"WATCHDOG=1"] * 2
        told = b""
        while not told.startswith(b"STOPPING=1"):
            told = manager.recv(4096)


@pytest.mark.parametrize("is_wanted", [False, True])
def test_nothing_of_it_is_loaded_unless_it_is_wanted(*, is_wanted: bool, tmp_path: Path) -> None:
    written = tmp_path / "modules"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        f"atexit.register(lambda: open({str(written)!r}, 'w').write(' '.join(sys.modules)))\n"
    )
    settings = {"listenPort": 0, "bindAddress": HOST, "healthPort": free_port() * is_wanted}
    file = tmp_path / "namesrv.yaml"
    file.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "pocketmq.cli.main", "namesrv", "-c", str(file)]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": path}
    if is_wanted:
        environment["NOTIFY_SOCKET"] = str(tmp_path / "nobody")  # which is logged, and no more
    with running(command, UP, environment=environment):
        pass
    folder = "pocketmq.runtime.supervision"
    loaded = {name for name in written.read_text().split() if name.startswith(folder)}
    all_of_it = {folder, f"{folder}.probes", f"{folder}.service_manager"}
    assert loaded == (all_of_it if is_wanted else set())
