"""A broker set whose name servers and members are processes of their own, killed and started."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from support.commands.here import pocketmq
from support.interop.apache_servers import free_port
from support.interop.processes import STOP_TIMEOUT_S, ServerOutput

from pocketmq.broker.replication.set_state import decode_state
from pocketmq.client import Admin
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.errors import PocketMQError

HOST = "127.0.0.1"
UP = re.compile(r"^up\b.*", re.MULTILINE)
TRIES_MAX, REPORTS_MAX = 300, 5000
"""How often a command is run, and members are asked, until something has come true."""


class Process:
    """One server, on a port of its own.

    Args:
        kind: `namesrv` or `broker`.
        directory: of its settings.
        name: of their file.
        settings: of its configuration.
    """

    def __init__(self, kind: str, directory: Path, name: str, settings: dict[str, Any]) -> None:
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self.health_port = free_port()
        file = directory / f"{name}.yaml"
        own = {"listenPort": self.port, "bindAddress": HOST, "healthPort": self.health_port}
        file.write_text(yaml.safe_dump(own | settings))
        self._command = [sys.executable, "-m", "pocketmq.cli.main", kind, "-c", str(file)]
        self._process: subprocess.Popen[str] | None = None
        self._output: ServerOutput | None = None

    def start(self, *, wait: bool = True) -> None:
        """Starts the process; returns when it serves, unless that is not waited for."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self._output = ServerOutput(self._process, UP)
        if wait and self._output.wait_until_ready() is None:
            raise AssertionError(self._output.close())

    def send(self, number: signal.Signals) -> None:
        """Sends the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGKILL) -> str:
        """Ends the process; returns the end of its output."""
        if self._process is None or self._output is None:
            return ""
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        self._process = None
        return self._output.close()


class BrokerSet:
    """The processes of a cluster with one broker set.

    Args:
        directory: of all data.
        members: how many.
        namesrvs: how many name servers.
        controller: controllerAddr; empty for the first name server.
        settings: of the members.
    """

    def __init__(
        self, directory: Path, members: int, namesrvs: int, controller: str, **settings: object
    ) -> None:
        self.directory = directory
        self.arbiter = directory / "arbiter.db"
        self.namesrvs = [
            Process(
                "namesrv", directory, f"namesrv-{index}",
                {"kvConfigPath": str(directory / f"kv-{index}.json")}
                | ({} if controller else {"arbiterPath": str(self.arbiter)}),
            )
            for index in range(namesrvs)
        ]  # fmt: skip
        self.namesrv = ";".join(namesrv.address for namesrv in self.namesrvs)
        self.members = {
            member_id: Process(
                "broker", directory, f"broker-{member_id}",
                {
                    "brokerName": "broker-a", "brokerId": member_id, "namesrvAddr": self.namesrv,
                    "enableControllerMode": True, "grpcServerPort": -1, "leaderLease": 2000,
                    "storePathRootDir": str(directory / str(member_id)),
                    **({"controllerAddr": controller} if controller else {}),
                }
                | settings,
            )
            for member_id in range(1, members + 1)
        }  # fmt: skip

    def masters(self) -> list[str]:
        """The addresses of leaders, as name servers tell them."""
        done = pocketmq("cluster", "list", "-o", "json", "--namesrv", self.namesrv)
        rows = json.loads(done.stdout) if not done.returncode else []
        return [row["address"] for row in rows if not row["brokerId"]]

    def leader(self, *candidates: int) -> int:
        """Waits until one of some members leads; returns its id."""
        by_address = {self.members[member].address: member for member in candidates}
        for _ in range(TRIES_MAX):
            found = [by_address[address] for address in self.masters() if address in by_address]
            if found:
                return found[0]
        raise AssertionError(f"none of {candidates} leads")

    def reports(self) -> list[MemberReport]:
        """What the members that answer say of themselves."""

        async def ask() -> list[MemberReport]:
            found = []
            async with Admin(self.namesrv) as admin:
                for member in self.members.values():
                    with suppress(PocketMQError):
                        found.append(await admin.describe_member(member.address))
            return found

        return asyncio.run(ask())

    def wait_until_in_sync(self, *members: int) -> None:
        """Returns when the arbiter holds exactly these members as in sync, and all say so."""
        for _ in range(REPORTS_MAX):
            reports = self.reports()
            states = [decode_state(report.state) for report in reports if report.state]
            if len(states) == len(members) and all(s.in_sync == members for s in states):
                return
        raise AssertionError(reports)

    def run_until(self, succeeded: Callable[[Any], bool], *words: str) -> Any:
        """Runs a command until its outcome is as it should be; returns the outcome."""
        for _ in range(TRIES_MAX):
            done = pocketmq(*words, "--namesrv", self.namesrv)
            assert "Traceback" not in done.stderr
            if succeeded(done):
                return done
        raise AssertionError(done.stderr + done.stdout)


@contextmanager
def broker_set(
    directory: Path, members: int = 2, namesrvs: int = 1, controller: str = "", **settings: object
) -> Iterator[BrokerSet]:
    """Runs a broker set for the length of the block; all of it is up when it begins."""
    directory.mkdir(parents=True, exist_ok=True)
    cluster = BrokerSet(directory, members, namesrvs, controller, **settings)
    processes = [*cluster.namesrvs, *cluster.members.values()]
    try:
        for process in processes:
            process.start()
        yield cluster
    finally:
        for process in reversed(processes):
            process.stop()
