"""A real etcd on loopback: one member or several, that tests kill, pause and start again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import pytest
from support.interop.processes import STOP_TIMEOUT_S, ServerOutput

HOST = "127.0.0.1"
COMMAND = "etcd"
HOW_TO_INSTALL = "etcd is not installed: apt-get install etcd-server"


READY = re.compile("serving client traffic")
TRIES_MAX, ANSWER_S = 20, 10
"""How often a member is asked whether it has a majority, and how long it may take to answer."""


def etcd_command() -> str:
    """The path of etcd; without one the test is skipped, but fails in CI."""
    path = shutil.which(COMMAND)
    if path is None and os.environ.get("CI") == "true":
        pytest.fail(HOW_TO_INSTALL)
    if path is None:
        pytest.skip(HOW_TO_INSTALL)
    return path


class EtcdMember:
    """One member's process.

    Args:
        command: of etcd.
        directory: of its data.
        name: of the member.
        client, peer: its URLs.
        cluster: all members, as etcd's option wants them.
        options: further ones.
    """

    def __init__(
        self,
        command: str,
        directory: Path,
        name: str,
        client: str,
        peer: str,
        cluster: str,
        options: tuple[str, ...],
    ) -> None:
        self.address = client.partition("://")[2]
        self._command = [
            command, "--name", name, "--data-dir", str(directory),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", cluster, "--initial-cluster-token", str(directory.parent),
            "--logger", "zap", "--heartbeat-interval", "50", "--election-timeout", "500",
            *options,
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None
        self._output: ServerOutput | None = None

    def start(self) -> None:
        """Starts the process; it may take a moment until it answers."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self._output = ServerOutput(self._process, READY)

    def wait_until_ready(self) -> None:
        """Returns when a process that was started answers; the cluster has a majority then."""
        assert self._output is not None
        if self._output.wait_until_ready() is None:
            raise AssertionError(f"etcd did not start:\n{self._output.close()}")

    def wait_until_answering(self) -> None:
        """Returns when the member has answered a read that needs a majority."""
        for _ in range(TRIES_MAX):  # etcd itself waits some seconds for its majority
            try:
                with urllib.request.urlopen(
                    f"http://{self.address}/v3/kv/range", data=b'{"key":"AA=="}', timeout=ANSWER_S
                ) as answer:
                    assert answer.status == 200
                    return
            except (HTTPError, TimeoutError):
                pass
        raise AssertionError(f"etcd at {self.address} found no majority")

    def kill(self) -> None:
        """Ends the process at once."""
        self._signal(signal.SIGKILL)
        if self._process is not None and self._output is not None:
            self._process.wait(STOP_TIMEOUT_S)
            self._output.close()

    def pause(self) -> None:
        """Stops the process: it takes connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the process go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


class Etcd:
    """A cluster of etcd.

    Attributes:
        members: its processes.
    """

    def __init__(self, members: list[EtcdMember]) -> None:
        self.members = members

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all members, ``host:port``."""
        return tuple(member.address for member in self.members)

    @property
    def url(self) -> str:
        """The value of controllerAddr."""
        return f"etcd://{','.join(self.addresses)}"


@contextmanager
def etcd(
    directory: Path, members: int = 1, options: tuple[str, ...] = (), scheme: str = "http"
) -> Iterator[Etcd]:
    """Runs a cluster of etcd for the length of the block.

    Args:
        directory: of its data.
        members: how many.
        options: of each member.
        scheme: of the URLs for clients.
    """
    command = etcd_command()
    ports = _free_ports(2 * members)
    peers = [f"http://{HOST}:{port}" for port in ports[:members]]
    cluster = ",".join(f"m{index}={peer}" for index, peer in enumerate(peers))
    running = [
        EtcdMember(
            command, directory / f"m{index}", f"m{index}", f"{scheme}://{HOST}:{port}",
            peers[index], cluster, options,
        )
        for index, port in enumerate(ports[members:])
    ]  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    try:
        for member in running:
            member.start()
        for member in running:
            member.wait_until_ready()
        yield Etcd(running)
    finally:
        for member in running:
            member.kill()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [opened.getsockname()[1] for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()
